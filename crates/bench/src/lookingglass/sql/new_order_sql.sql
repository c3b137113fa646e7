-- New-Order as one statement. An item that does not exist has no price, and so its line violates NOT NULL: the whole
-- call is undone. Lines of the same stock are one update: its quantity is taken modulo 91, whatever the steps.
create function glass_new_order_stored_sql(warehouse int, district int, customer int, entered timestamp,
    items int[], supplies int[], quantities int[]) returns numeric language sql as $$
  with place as (
    update tpcc_district set d_next_o_id = d_next_o_id + 1 where d_w_id = warehouse and d_id = district
    returning d_next_o_id - 1 as o_id, d_tax
  ), placed as (
    insert into tpcc_orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
    select o_id, district, warehouse, customer, entered, null, cardinality(items),
      case when warehouse = all (supplies) then 1 else 0 end
    from place
  ), queued as (
    insert into tpcc_new_order (no_o_id, no_d_id, no_w_id) select o_id, district, warehouse from place
  ), taken as (
    update tpcc_stock set
      s_quantity = case when s_quantity - sold >= 10 then s_quantity - sold else s_quantity - sold + 91 end,
      s_ytd = s_ytd + sold, s_order_cnt = s_order_cnt + times,
      s_remote_cnt = s_remote_cnt + case when supply = warehouse then 0 else times end
    from (
      select item, supply, sum(quantity)::int as sold, count(*)::int as times
      from unnest(items, supplies, quantities) as line (item, supply, quantity)
      group by supply, item order by supply, item
    ) as sales
    where s_w_id = supply and s_i_id = item
    returning s_w_id, s_i_id, case district when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03
      when 4 then s_dist_04 when 5 then s_dist_05 when 6 then s_dist_06 when 7 then s_dist_07 when 8 then s_dist_08
      when 9 then s_dist_09 else s_dist_10 end as info
  ), lines as (
    insert into tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity,
      ol_amount, ol_dist_info, ol_delivery_d)
    select o_id, district, warehouse, number, item, supply, quantity, quantity * i_price, info, null
    from place cross join unnest(items, supplies, quantities) with ordinality as line (item, supply, quantity, number)
      left join tpcc_item on i_id = item left join taken on s_w_id = supply and s_i_id = item
    returning ol_amount
  )
  select (select sum(ol_amount) from lines) * (1 - c_discount) * (1 + w_tax + d_tax)
  from place, tpcc_customer, tpcc_warehouse
  where w_id = warehouse and c_w_id = warehouse and c_d_id = district and c_id = customer
$$
