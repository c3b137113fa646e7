-- New-Order statement by statement, as an application's procedure has it.
create function glass_new_order_plpgsql(warehouse int, district int, customer int, entered timestamp,
    items int[], supplies int[], quantities int[]) returns numeric language plpgsql as $$
declare
  discount numeric;
  taxes numeric;
  place record;
  price numeric;
  stock record;
  amount numeric;
  total numeric := 0;
begin
  select c_discount, w_tax into strict discount, taxes from tpcc_customer, tpcc_warehouse
    where w_id = warehouse and c_w_id = w_id and c_d_id = district and c_id = customer;
  update tpcc_district set d_next_o_id = d_next_o_id + 1 where d_w_id = warehouse and d_id = district
    returning d_next_o_id - 1 as o_id, d_tax into strict place;
  insert into tpcc_orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
    values (place.o_id, district, warehouse, customer, entered, null, cardinality(items),
      case when warehouse = all (supplies) then 1 else 0 end);
  insert into tpcc_new_order (no_o_id, no_d_id, no_w_id) values (place.o_id, district, warehouse);
  for number in 1..cardinality(items) loop
    select i_price into price from tpcc_item where i_id = items[number];
    if not found then
      raise not_null_violation using message = 'the item does not exist';
    end if;
    update tpcc_stock set
      s_quantity = case when s_quantity - quantities[number] >= 10 then s_quantity - quantities[number]
        else s_quantity - quantities[number] + 91 end,
      s_ytd = s_ytd + quantities[number], s_order_cnt = s_order_cnt + 1,
      s_remote_cnt = s_remote_cnt + case when supplies[number] = warehouse then 0 else 1 end
      where s_w_id = supplies[number] and s_i_id = items[number]
      returning case district when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03
        when 4 then s_dist_04 when 5 then s_dist_05 when 6 then s_dist_06 when 7 then s_dist_07 when 8 then s_dist_08
        when 9 then s_dist_09 else s_dist_10 end as info into strict stock;
    amount := quantities[number] * price;
    total := total + amount;
    insert into tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity,
      ol_amount, ol_dist_info, ol_delivery_d)
      values (place.o_id, district, warehouse, number, items[number], supplies[number], quantities[number], amount,
        stock.info, null);
  end loop;
  return total * (1 - discount) * (1 + taxes + place.d_tax);
end
$$
