UPDATE orders SET fence = $1 WHERE id = $2 AND fence <= $1 RETURNING state;
