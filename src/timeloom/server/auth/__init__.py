"""Authentication and access control.

Reading order: `modes` (authentication of each server mode), `authenticate`, `principal`, `api_keys`, `api_key_file`,
`oidc`, `access_policy`, `revocation` (closes connections of revoked keys), `audit_log`,
`retention` (daily deletion with audit entries).
"""
