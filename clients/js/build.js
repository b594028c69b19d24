// dist/ from src/: without comments and indentation. Nothing of src/beacon.js needs either: no text of it spans lines.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";

const at = (path) => new URL(path, import.meta.url);
const lines = readFileSync(at("src/beacon.js"), "utf8")
  .split("\n")
  .map((line) => line.replace(/(^|\s)\/\/ .*$/, "").trim())
  .filter(Boolean);
mkdirSync(at("dist"), { recursive: true });
writeFileSync(at("dist/beacon.js"), `${lines.join("\n")}\n`);
copyFileSync(at("src/beacon.d.ts"), at("dist/beacon.d.ts"));
