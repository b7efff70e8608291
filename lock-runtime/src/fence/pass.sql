INSERT INTO gates (resource, fence) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE gates.fence <= excluded.fence
RETURNING fence;
