"""Authentication and access control.

Reading order: `authenticate`, `api_keys`, `oidc`, `access_policy`, `revocation` (closes connections of revoked keys),
`audit_log`.
"""
