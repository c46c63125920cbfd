// What the examples of the README import as an agent of the reader's.

import { createTool } from "@mastra/core/tools";
import { jsonSchema, tool } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { z } from "zod";

import { pageReader } from "./agent.mjs";
import { page } from "./served.mjs";

export const { model } = pageReader(MockLanguageModelV4, 3);

const description = "Read a page.";
const inputSchema = jsonSchema({ type: "object", properties: { page: { type: "number" } }, required: ["page"] });
export const tools = { read_page: tool({ description, inputSchema, execute: async (input) => page(input.page) }) };
export const mastraTools = {
  read_page: createTool({
    id: "read_page",
    description,
    inputSchema: z.object({ page: z.number() }),
    execute: async (input) => page(input.page),
  }),
};
