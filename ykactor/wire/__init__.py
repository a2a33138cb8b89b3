"""Text and bytes to structs and back: scheduler interface, queue file, scenarios, decision log. No trio, no scheduling."""
