// TPC-C's New-Order, by one call of a stored function.

import type { Client } from "pg";
import type { Order } from "./order";

/** Enters an order. Returns the total in cents, or null if an item does not exist. */
export async function newOrder(client: Client, order: Order): Promise<number | null> {
  const { warehouse, district, customer, entered, lines } = order;
  const text = "SELECT round(100 * new_order($1, $2, $3, $4, $5, $6, $7))::int";
  const items = lines.map((line) => line.item);
  const supplies = lines.map((line) => line.supply);
  const quantities = lines.map((line) => line.quantity);
  const values = [warehouse, district, customer, entered, items, supplies, quantities];
  try {
    return (await client.query({ text, values, rowMode: "array" })).rows[0][0];
  } catch (error) {
    if ((error as { code?: string }).code === "23502") return null;
    throw error;
  }
}
