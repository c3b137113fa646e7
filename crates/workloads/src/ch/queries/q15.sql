with revenue as (
    select
        (s_w_id * s_i_id) % 10000 as supplier_no,
        sum(ol_amount) as total_revenue
    from tpcc.order_line, tpcc.stock
    where ol_i_id = s_i_id
        and ol_supply_w_id = s_w_id
        and ol_delivery_d >= timestamp '2007-01-02 00:00:00'
    group by (s_w_id * s_i_id) % 10000
)
select
    su_suppkey,
    su_name,
    su_address,
    su_phone,
    total_revenue
from ch.supplier, revenue
where su_suppkey = supplier_no
    and total_revenue = (select max(total_revenue) from revenue)
order by su_suppkey
