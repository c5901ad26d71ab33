"""What a request asks for: noise removed, focus found, skip rules applied, time expressions read."""
