"""The sections of the settings table: `context`, `execution`, `governance`, `server`, `storage`, `telemetry`."""
