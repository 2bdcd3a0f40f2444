// The data of the report: chunks of compressed JSON in the page, decompressed when they are needed.

export const VERDICTS = ['passed', 'failed', 'invalid', 'indeterminate'] as const;
export type Verdict = (typeof VERDICTS)[number];

export interface Question { id: string; question: string; answer?: string; keywords?: string[] }
export interface Identity { label: string; interface: string; model: string; actual_model?: string }
export interface Interval { low: number; high: number }
export interface Totals { input_tokens: number; output_tokens: number; cost_usd?: number }
export interface ModelResult {
  model: string; units: number; passed: number; failed: number; invalid: number; provider_failures: number;
  indeterminate: number; accuracy: number | null; interval: Interval | null; answers: Totals; judging: Totals;
  trials: number; p50_millis: number | null; p95_millis: number | null;
  repeated: { k: number; questions: number; pass_at_k: number | null; pass_all_k: number | null; agreement: number | null } | null;
  answer_cost: { p50: number; p95: number } | null; path_efficiency: number | null;
  tools: { all: number; failed: number }; tool_success: number | null;
  failures: { category: string; group: string; units: number }[]; uncategorized: number;
  panel?: { rule: string; passed: number; failed: number; unscored: number; accuracy: number | null; interval: Interval | null };
}
export interface Flaky { question: string; model: string; judge: string | null; passed: number; scored: number }
export interface KeywordResult { keyword: string; model: string; passed: number; scored: number; interval: Interval | null }
export interface Overview {
  format: number; wharf: string;
  run: { id: string; benchmark: string; created: number; state: string; progress: { units: number; done: number } };
  description: string | null; questions: Question[]; models: Identity[]; judges: Identity[]; planned: number;
  results: ModelResult[]; flaky: Flaky[]; keywords: KeywordResult[];
  agreement: {
    trials: number; unanimous: number | null; fleiss_kappa: number | null;
    pairs: { judges: [string, string]; trials: number; agreed: number | null; cohen_kappa: number | null }[];
  } | null;
  compared: Compared[];
}
export interface Compared {
  best: string; model: string; questions: number; difference: { value: number; low: number; high: number } | null;
  worse: number; better: number; p: number; outcome: 'regression' | 'improvement' | 'not_significant' | 'nothing_compared';
}

export interface Unit {
  index: number; id: string; question: number; model: number; judge: number | null; replicate: number; verdict: Verdict;
  category: string | null; cost: number | null; millis: number; score: number | null; tools: number; toolErrors: number;
  input: number; output: number;
}
type Row = [string, number, number, number | null, number, Verdict, string | null, number | null, number, number | null,
  number, number, number, number];

export interface Usage {
  input_tokens: number; output_tokens: number; cache_read_tokens?: number; cache_write_tokens?: number;
  reasoning_tokens?: number; cost_usd?: number;
}
export interface Call { id: string; name: string; input: string }
export interface Message {
  role: string; content: string; thinking?: string; usage?: Usage;
  calls?: Call[];
  result?: { id: string; is_error: boolean; output?: string };
}
export interface Field {
  name: string; passed: boolean | null; score: number | null; extracted?: string; truth?: string; reason?: string;
  similarity?: number; overruled?: string;
}
export type TraitValue = { boolean: boolean } | { score: { score: number; min: number; max: number } } |
  { class: { index: number; name?: string } } | { object: string } | { metrics: Record<string, unknown> };
export interface Trait {
  name: string; higher_is_better?: boolean; value?: TraitValue; absent?: string; failed?: string; reasoning?: string;
}
export interface Excerpt {
  attribute?: string; name?: string; text: string; quoted?: string; similarity?: number; message?: number; start?: number; end?: number;
}
export interface Template { passed: boolean | null; score: number | null; fields: Field[] }
export interface Assertion { assertion: string; passed: boolean; reason?: string; path_efficiency?: number }
export interface ScenarioTurn {
  turn: string; prompt: string; messages: number; passed?: boolean | null; template?: Template; assertions?: Assertion[];
}
export interface Scenario {
  end: string; turns: ScenarioTurn[]; state?: Record<string, string>; steering_judge?: string;
  outcome?: { name: string; passed?: boolean | null; reason?: string }[];
}
export interface Detail {
  unit: string; trial: string; reason?: string; caveats?: string[]; response: string | null; trace: Message[];
  failure?: { category: string; group: string; stage: string; reason: string };
  template?: Template; assertions?: Assertion[]; scenario?: Scenario;
  rubric?: { traits: Trait[] };
  limit_reached: boolean; turns: number; tool_calls: number; usage: Usage; judge_usage: Usage;
  retries?: Record<string, number>; millis: number; tool_set: string; keywords?: string[]; model: Identity;
  judge?: Identity; judge_reasoning?: string; excerpts?: Excerpt[];
}

interface Chunk { element: Element; first: number; units: number }

const CACHED_CHUNKS = 6;

function chunks(kind: string): Chunk[] {
  return [...document.querySelectorAll(`script[data-chunk="${kind}"]`)].map((element) => ({
    element, first: Number(element.getAttribute('data-first')), units: Number(element.getAttribute('data-units')),
  }));
}

async function decompressed<T>(chunk: Chunk): Promise<T> {
  const binary = atob((chunk.element.textContent ?? '').trim());
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return JSON.parse(await new Response(stream).text()) as T;
}

export class Report {
  /** Units by question, in order. */
  readonly byQuestion: Unit[][];
  private readonly detailChunks = chunks('details');
  private readonly cache = new Map<number, Promise<Detail[]>>();
  private answers: Promise<string[]> | null = null;

  private constructor(readonly overview: Overview, readonly units: Unit[]) {
    this.byQuestion = overview.questions.map(() => []);
    for (const unit of units) this.byQuestion[unit.question]?.push(unit);
  }

  static async load(): Promise<Report> {
    const [last] = chunks('overview');
    if (!last) throw new Error('this file is incomplete: it has no overview');
    const overview = await decompressed<Overview>(last);
    if (overview.format !== 1) throw new Error(`the data has format ${overview.format}, and this page reads format 1`);
    const units: Unit[] = [];
    for (const rows of await Promise.all(chunks('rows').map((chunk) => decompressed<Row[]>(chunk)))) {
      for (const row of rows) {
        const [id, question, model, judge, replicate, verdict, category, cost, millis, score, tools, toolErrors, input, output] = row;
        units.push({
          index: units.length, id, question, model, judge, replicate, verdict, category, cost, millis, score, tools,
          toolErrors, input, output,
        });
      }
    }
    return new Report(overview, units);
  }

  question(unit: Unit): Question {
    return this.overview.questions[unit.question] ?? { id: '', question: '' };
  }

  model(unit: Unit): string {
    return this.overview.models[unit.model]?.label ?? '';
  }

  judge(unit: Unit): string | null {
    return unit.judge === null ? null : (this.overview.judges[unit.judge]?.label ?? null);
  }

  /** Finds a unit by its id, or by a beginning that no other id has. */
  find(id: string): Unit | undefined {
    const exact = this.units.find((unit) => unit.id === id);
    if (exact || id.length < 6) return exact;
    const similar = this.units.filter((unit) => unit.id.startsWith(id));
    return similar.length === 1 ? similar[0] : undefined;
  }

  /** Loads the complete result of a unit. Chunks that were used last stay in memory. */
  async detail(unit: Unit): Promise<Detail> {
    const number = this.detailChunks.findIndex((chunk) => unit.index < chunk.first + chunk.units);
    const chunk = this.detailChunks[number];
    if (!chunk) throw new Error('this file is incomplete: it has no details of this unit');
    let loaded = this.cache.get(number);
    this.cache.delete(number);
    loaded ??= decompressed<Detail[]>(chunk);
    this.cache.set(number, loaded);
    const oldest = this.cache.keys().next().value;
    if (this.cache.size > CACHED_CHUNKS && oldest !== undefined) this.cache.delete(oldest);
    const detail = (await loaded)[unit.index - chunk.first];
    if (!detail) throw new Error('this file is incomplete: it has no details of this unit');
    return detail;
  }

  /** Loads the beginnings of all answers in lower case, for the search. */
  texts(): Promise<string[]> {
    this.answers ??= Promise.all(chunks('texts').map((chunk) => decompressed<string[]>(chunk))).then((lists) =>
      lists.flat().map((text) => text.toLowerCase()));
    return this.answers;
  }
}
