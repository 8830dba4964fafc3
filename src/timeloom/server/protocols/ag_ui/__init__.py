"""The AG-UI protocol: `routes`, `events` (its types), `run` (translates a turn's events)."""
