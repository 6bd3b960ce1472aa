// What the client takes and gives is what the contract has: each line fails the compiler if it one day is not.
import type { components, operations } from "./contract.ts";
import type { Appended, AppendQuery, Change, Document, Entry, Page, Window, WindowQuery } from "./sash.ts";

type Schemas = components["schemas"];
type Given<T> = { [name in keyof T]?: Exclude<T[name], null | undefined> };
type Query<name extends keyof operations> = Given<NonNullable<operations[name]["parameters"]["query"]>>;

function same<A, B>(_: [A] extends [B] ? ([B] extends [A] ? true : never) : never): void {}
function holds<Contract, Client>(_: [Contract] extends [Client] ? true : never): void {}

same<Given<WindowQuery>, Omit<Query<"getWindow">, "receipt">>(true);
same<keyof AppendQuery, keyof Query<"appendMessages">>(true);
same<keyof Document, keyof Schemas["Document"]>(true);
same<keyof Entry, keyof Schemas["Entry"]>(true);
holds<Given<Omit<Schemas["AppendedMessages"], "window" | "window_error" | "messages">>, Given<Appended>>(true);
holds<Schemas["AppendedMessage"]["seq"], Appended["messages"][number]["seq"]>(true);
type Figures = "model" | "exact" | "budget" | "kept" | "stop_reason";
holds<Pick<Schemas["Window"], Figures>, Pick<Window, Figures>>(true);
holds<Schemas["Window"]["tokens"], Window["tokens"]>(true);
holds<Schemas["MessagePage"]["next_cursor"], Page["next_cursor"]>(true);
same<keyof Change, keyof Schemas["OwnerEvent"]>(true);
same<Change["type"], Schemas["OwnerEvent"]["type"]>(true);
