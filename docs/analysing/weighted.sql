SELECT smoker, disease, round(sum(weight)) AS people, round(sum(weight * age) / sum(weight), 1) AS mean_age
FROM 'weighted.parquet'
WHERE disease IN ('cancer', 'flu')
GROUP BY ALL
ORDER BY ALL
