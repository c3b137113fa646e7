-- New-Order statement by statement, in Python. Plans are prepared at the first call of a session.
create function glass_new_order_plpython(warehouse int, district int, customer int, entered timestamp,
    items int[], supplies int[], quantities int[]) returns numeric language plpython3u as $$
from decimal import Decimal
if "plans" not in SD:
    SD["plans"] = {
        "buyer": plpy.prepare(
            "select c_discount, w_tax from tpcc_customer, tpcc_warehouse "
            "where w_id = $1 and c_w_id = w_id and c_d_id = $2 and c_id = $3", ["int", "int", "int"]),
        "place": plpy.prepare(
            "update tpcc_district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2 "
            "returning d_next_o_id - 1 as o_id, d_tax", ["int", "int"]),
        "order": plpy.prepare(
            "insert into tpcc_orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) "
            "values ($1, $2, $3, $4, $5, null, $6, $7)", ["int", "int", "int", "int", "timestamp", "int", "int"]),
        "new": plpy.prepare(
            "insert into tpcc_new_order (no_o_id, no_d_id, no_w_id) values ($1, $2, $3)", ["int", "int", "int"]),
        "item": plpy.prepare("select i_price from tpcc_item where i_id = $1", ["int"]),
        "line": plpy.prepare(
            "insert into tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, "
            "ol_quantity, ol_amount, ol_dist_info, ol_delivery_d) "
            "values ($1, $2, $3, $4, $5, $6, $7, $8, $9, null)",
            ["int", "int", "int", "int", "int", "int", "int", "numeric", "text"]),
    }
plans = SD["plans"]
stock_key = "stock%d" % district
if stock_key not in plans:
    plans[stock_key] = plpy.prepare(
        "update tpcc_stock set s_quantity = case when s_quantity - $1 >= 10 then s_quantity - $1 "
        "else s_quantity - $1 + 91 end, s_ytd = s_ytd + $1, s_order_cnt = s_order_cnt + 1, "
        "s_remote_cnt = s_remote_cnt + $2 where s_w_id = $3 and s_i_id = $4 "
        "returning s_dist_%02d as info" % district, ["int", "int", "int", "int"])
buyer = plans["buyer"].execute([warehouse, district, customer])[0]
place = plans["place"].execute([warehouse, district])[0]
order = place["o_id"]
all_local = 1 if all(supply == warehouse for supply in supplies) else 0
plans["order"].execute([order, district, warehouse, customer, entered, len(items), all_local])
plans["new"].execute([order, district, warehouse])
total = Decimal(0)
for number, (item, supply, quantity) in enumerate(zip(items, supplies, quantities), 1):
    found = plans["item"].execute([item])
    if len(found) == 0:
        plpy.error("the item does not exist", sqlstate="23502")
    stock = plans[stock_key].execute([quantity, 0 if supply == warehouse else 1, supply, item])[0]
    amount = quantity * found[0]["i_price"]
    total += amount
    plans["line"].execute([order, district, warehouse, number, item, supply, quantity, amount, stock["info"]])
return total * (1 - buyer["c_discount"]) * (1 + buyer["w_tax"] + place["d_tax"])
$$
