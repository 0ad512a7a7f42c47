-- Money is in cents and rates are in millionths, so that all of it is exact. Each join is by an
-- equal time, too: state holds few rows of a key, and none that the watermark has passed.
SELECT order_id, user_id, ordered_at AS at, country, tier, amount * rate DIV 1000000 AS euro_cents
FROM (
    SELECT o.order_id, o.user_id, o.at AS ordered_at, o.currency, o.amount, u.country, u.tier
    FROM orders AS o
    JOIN users AS u ON u.user_id = o.user_id AND u.at = date_trunc('DAY', o.at)
) AS of_users
JOIN rates AS r
    ON r.currency = of_users.currency AND r.at = date_trunc('HOUR', of_users.ordered_at)
