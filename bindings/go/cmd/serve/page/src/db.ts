// Conversations in the browser's IndexedDB. Without one, such as in some private windows, they last until the page is
// closed.
import type { Conversation } from "./types";

const storeName = "conversations";
let database: Promise<IDBDatabase | null> | undefined;

function settle<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function open(): Promise<IDBDatabase | null> {
  database ??= (async () => {
    try {
      const request = indexedDB.open("realizar", 1);
      request.onupgradeneeded = () => request.result.createObjectStore(storeName, { keyPath: "id" });
      return await settle(request);
    } catch {
      return null;
    }
  })();
  return database;
}

async function use<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T | undefined> {
  const db = await open();
  return db ? settle(work(db.transaction(storeName, mode).objectStore(storeName))) : undefined;
}

export async function isKept(): Promise<boolean> {
  return (await open()) !== null;
}

export async function loadAll(): Promise<Conversation[]> {
  return ((await use("readonly", (store) => store.getAll())) as Conversation[] | undefined) ?? [];
}

export async function save(conversation: Conversation): Promise<void> {
  await use("readwrite", (store) => store.put(conversation));
}

export async function remove(id: string): Promise<void> {
  await use("readwrite", (store) => store.delete(id));
}

export async function removeAll(): Promise<void> {
  await use("readwrite", (store) => store.clear());
}
