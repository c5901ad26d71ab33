"""Files that readers of imports may stumble over."""

HOSTILE_FILES = (
    *(b"", b"\0", b"\xff\xfe\0", b"[" * 5000, b"{}\n" * 10, b'{"content":' * 500, b"a,b\n" * 5, b'"', b"\r\n" * 99),
    b"content,created_at\nx,0001-01-01T00:00:00+14:00\n",
    b'{"content":"z","created_at":"9999-12-31T23:59:59-14:00"}',
)
