"""Commands that install and check the hooks of agent hosts."""
