"""The two drivers of flows: one plain, one asyncio."""
