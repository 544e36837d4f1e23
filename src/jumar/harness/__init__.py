"""The thin faces that users see: Harness, Run, AsyncRun, and tools.  They hold no rules of their own."""
