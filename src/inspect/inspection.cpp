#include "inspect/inspection.hpp"

#include <algorithm>
#include <deque>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "analysis/heads_table.hpp"
#include "analysis/patterns/adapters.hpp"
#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "input/words.hpp"
#include "inspect/describe.hpp"
#include "inspect/memory_plan.hpp"
#include "inspect/stored/stored_patterns.hpp"

namespace attnctl::inspect {
namespace {

/// If `name` is WORD#N, returns how often WORD occurs in the input that has most of it; otherwise "".
std::string occurrences(const RunResults& run, std::string_view name) {
  const std::string_view word = name.substr(0, name.rfind('#'));
  if (word.empty() || word.size() == name.size() || !parse_number(name.substr(word.size() + 1))) return "";
  std::size_t most = 0;
  for (std::size_t s = 0; s < run.shown.sequences.size(); ++s) {
    while (!input::find_word(run.sides(s).queries_of, run.vocabulary, fmt::format("{}#{}", word, most + 1))
                .empty())
      ++most;
  }
  if (most == 0) return "";
  return fmt::format("; \"{}\" occurs{} {} time{}", escaped(word),
                     run.shown.sequences.size() == 1 ? "" : " at most", most, most == 1 ? "" : "s");
}

void add_subtitles(Results& results, const RunResults& run) {
  const std::vector<input::Sequence>& sequences = run.shown.sequences;
  results.subtitle = {run.model.name()};
  if (sequences.size() == 1 && sequences[0].text) results.subtitle.push_back(*sequences[0].text);
  const std::vector<const AnalysisRow*>& rows = run.request.includes.rows;
  for (View& view : results.pictures) {
    const auto row = std::ranges::find(rows, view.name, &AnalysisRow::include);
    const bool of_weights = row == rows.end() ? view.name == "similarity" : !(*row)->of_inputs();
    const std::span lines(results.subtitle.data(), of_weights ? 1 : results.subtitle.size());
    const auto add_lines = [&](auto& page) {
      page.subtitle.insert(page.subtitle.begin(), lines.begin(), lines.end());
    };
    std::visit(add_lines, view.page);
  }
}

/// Adds a line that names the results of --include that text does not show.
void add_missing(Results& results, const RunResults& run) {
  const Includes& includes = run.request.includes;
  std::vector<std::string_view> names;
  for (const AnalysisRow* row : includes.rows) {
    if (!row->text) names.push_back(row->include);
  }
  if (names.empty()) return;
  results.text.emplace_back(
      TextLine{"", fmt::format("Text does not show {}: use --format {}", fmt::join(names, ", "),
                               includes.has("directions") ? "json or csv" : "json, csv or npz")});
}

void add_analyses(Results& results, const RunResults& run) {
  for (const Results& each : run.analyses) results.append(Results(each));
}

}  // namespace

std::vector<std::string> sort_columns() {
  std::vector<std::string> columns = texts_of(analysis::metric_definitions(), &Definition::name);
  columns.insert(columns.end(), {"input", "component", "layer", "head", "name", "kv_head", "rows"});
  return columns;
}

/// All observers of the forward pass. With --by-word, metrics, captured patterns and the answers to --from
/// are computed over words. With --weighting norm or norm-row, captured patterns and the answers use
/// norm-based weights. The observers of the analyses receive tokens and attention weights in all cases.
struct Inspection::Observers {
  Observers(const Inspection& of, const SinkOf& sink_of)
      : metrics(of.request_.selection, of.request_.per_input),
        answers(of.request_.selection, of.found_.questions),
        heads(of.request_.selection) {
    const InspectRequest& request = of.request_;
    std::vector<forward::Observer*> shown;  // observers that receive patterns after --weighting
    if (request.includes.has("metrics")) all.push_back(&metrics);
    if (!of.found_.questions.empty()) shown.push_back(&answers);
    for (std::size_t c = 0; c < of.found_.components.size(); ++c) {
      std::vector<analysis::CaptureTarget> targets;
      for (const InputArray& array : of.found_.arrays) {
        if (array.component == c) targets.push_back({array.what, array.sequence, sink_of(array)});
      }
      if (targets.empty()) continue;
      const analysis::CaptureLayout layout(of.found_.components[c].selection, of.found_.config());
      shown.push_back(&captures.emplace_back(layout, targets));
    }
    if (request.by_word) {
      for (std::vector<forward::Observer*>* const observers : {&all, &shown}) {
        if (!observers->empty())
          *observers = {&pooled.emplace_back(request.selection, of.found_.units, of.words_, request.pool_from,
                                             *observers)};
      }
    }
    if (request.weighting != analysis::Weighting::weights && !shown.empty())
      shown = {&weighted.emplace_back(request.selection, request.weighting, shown)};
    all.insert(all.end(), shown.begin(), shown.end());
    HeadsSeen seen = HeadsSeen::selected;
    for (const auto& analysis : of.analyses_) {
      for (forward::Observer* const observer : analysis->observers()) all.push_back(observer);
      seen = std::max(seen, analysis->heads_seen());
    }
    if (seen == HeadsSeen::selected) return;
    heads = forward::Selection::all(of.found_.config());
    const std::vector<std::size_t> layers = request.selection.layers();
    const auto is_other = [&](model::HeadId head) { return !std::ranges::binary_search(layers, head.layer); };
    if (seen == HeadsSeen::of_selected_layers) std::erase_if(heads.heads, is_other);
  }

  analysis::PatternMetrics metrics;
  analysis::AttentionFrom answers;
  std::deque<analysis::Capture> captures;
  std::deque<analysis::WordPooling> pooled;
  std::deque<analysis::NormWeighting> weighted;
  std::vector<forward::Observer*> all;
  forward::Selection heads;  // the heads that the pass must compute
};

Inspection::Inspection(const InspectRequest& request, InspectSubject subject,
                       const forward::RunContext& context)
    : request_(request),
      subject_(std::move(subject)),
      context_(context),
      found_{{request, subject_.model, subject_.vocabulary, subject_.batch,
              request.by_word ? words_ : subject_.batch, context_},
             analysis::split_by_component(request.selection, subject_.model.config())} {
  check_components();
  if (!subject_.batch.sequences.empty() && subject_.stored == nullptr)
    forward::check_batch(subject_.model, subject_.batch);
  if (request.by_word) plan_words();
  plan_questions();
  check_sort();
  plan_arrays();
  const Includes& includes = request.includes;
  if (!request.rollout_from.empty() && !includes.has("rollout") && !includes.has("flow"))
    fail(Status::usage, "--rollout-from: needs --include rollout or flow");
  if (subject_.stored != nullptr && (includes.has("rollout") || includes.has("flow")) &&
      !subject_.stored->complete())
    fail(Status::usage,
         "{}: rollout and flow need the patterns of all layers and heads; leave them out of --include",
         escaped(subject_.model.name()));
  for (const AnalysisRow* row : includes.rows)
    if (row->make != nullptr) analyses_.push_back(row->make(found_));
  check_sizes();
}

void Inspection::check_components() const {
  const std::vector<analysis::ComponentHeads>& components = found_.components;
  const std::vector<const AnalysisRow*>& rows = request_.includes.rows;
  const bool single = components.size() == 1;
  if (single && components.front().component == model::Component::none) return;
  for (const AnalysisRow* row : rows) {
    if (row->components == Components::none)
      fail(Status::usage, "--include {} is unsupported for encoder-decoder models", row->include);
    if (row->components == Components::not_cross && single &&
        components.front().component == model::Component::cross)
      fail(Status::usage, "--include {} supports only self-attention: use --component encoder or decoder",
           row->include);
  }
  if (single) return;
  const auto refuse = [](const std::string& what, bool cross = true) {
    fail(Status::usage, "{} works on one component at a time: add --component encoder{}", what,
         cross ? ", decoder or cross" : " or decoder");
  };
  if (!request_.from.empty()) refuse("--from");
  if (request_.weights.across_layers) refuse("--across-layers");
  for (const AnalysisRow* row : rows)
    if (row->make != nullptr)
      refuse(fmt::format("--include {}", row->include), row->components == Components::each);
}

/// Throws Error(usage) if --sort names neither a column of the table of heads nor a word of --to in an input.
void Inspection::check_sort() const {
  const std::string& sort = request_.sort;
  const auto asks = [&](const analysis::AttentionQuestion& question) {
    return std::ranges::find(question.to_texts, sort) != question.to_texts.end();
  };
  const std::vector<std::string> columns = sort_columns();
  if (sort.empty() || std::ranges::find(columns, sort) != columns.end() ||
      std::ranges::any_of(found_.questions, asks))
    return;
  fail(Status::usage,
       "--sort {}: the table of heads has no such column{}; attnctl explain lists the columns{}",
       escaped(sort), did_you_mean(sort, columns),
       subject_.batch.sequences.empty() ? ""
       : request_.from.empty()          ? "; to sort by a word of the text, give --from also"
                                        : "; nor is it a word of the text");
}

void Inspection::plan_words() {
  for (const AnalysisRow* row : request_.includes.rows) {
    if (!row->by_word && row->of_inputs())
      fail(Status::usage, "--by-word does not support {}; leave it out of --include", row->include);
  }
  if (found_.config().decoder) fail(Status::usage, "--by-word is unsupported for encoder-decoder models");
  for (const input::Sequence& sequence : subject_.batch.sequences) {
    found_.units.push_back(input::word_units(sequence, subject_.vocabulary));
    words_.sequences.push_back(input::pooled_sequence(sequence, found_.units.back(), subject_.vocabulary));
  }
}

void Inspection::plan_questions() {
  if (request_.from.empty()) {
    if (!request_.to.empty()) fail(Status::usage, "--to needs --from");
    return;
  }
  std::vector<const input::Sequence*> queries;
  std::vector<const input::Sequence*> keys;  // of the inputs that have --from
  for (std::size_t s = 0; s < found_.shown.sequences.size(); ++s)
    queries.push_back(&found_.sides(s).queries_of);
  std::vector<std::vector<std::size_t>> from = find_in_inputs(found_, "--from", request_.from, queries);
  const std::size_t top = request_.top.value_or(kAllHeads);
  for (std::size_t s = 0; s < from.size(); ++s) {
    if (from[s].empty()) continue;
    keys.push_back(&found_.sides(s).keys_of);
    auto& question = found_.questions.emplace_back();
    question.sequence = s;
    question.from = std::move(from[s]);
    if (request_.form != Form::text || top != kAllHeads) question.top = top;
  }
  if (found_.questions.empty()) refuse_from();
  for (const std::string& name : request_.to) {
    std::vector<std::vector<std::size_t>> to = find_in_inputs(found_, "--to", name, keys);
    for (std::size_t q = 0; q < to.size(); ++q) {
      if (to[q].empty()) continue;
      found_.questions[q].to.push_back(std::move(to[q]));
      found_.questions[q].to_texts.push_back(name);
    }
  }
}

void Inspection::refuse_from() const {
  constexpr std::size_t kMostTokens = 20;
  const std::size_t inputs = found_.shown.sequences.size();
  std::vector<std::string> tokens = token_labels(found_, found_.sides(0).queries_of);
  if (tokens.size() > kMostTokens) {
    tokens.resize(kMostTokens);
    tokens.emplace_back("...");
  }
  const std::vector<std::int64_t>& ids = found_.shown.sequences[0].ids;
  const auto unknown =
      std::ranges::find_if(ids, [this](std::int64_t id) { return subject_.vocabulary.is_unknown(id); });
  fail(Status::usage,
       "--from: \"{}\" is not a word or token of {} (tokens: {}{}){}; give a word, a token or a position; "
       "attnctl tokenize shows the tokens of each word",
       escaped(request_.from), inputs == 1 ? "the text" : fmt::format("any of {} inputs", inputs),
       escaped(fmt::format("{}", fmt::join(tokens, " "))),
       unknown == ids.end() ? ""
                            : fmt::format("; {} is text that the vocabulary does not have",
                                          escaped(subject_.vocabulary.token(*unknown).value_or("?"))),
       occurrences(found_, request_.from));
}

void Inspection::plan_arrays() {
  for (std::size_t component = 0; component < found_.components.size(); ++component) {
    const analysis::CaptureLayout layout(found_.components[component].selection, found_.config());
    for (const analysis::Captured what : analysis::kAllCaptured) {
      if (!request_.includes.has(include_name(what))) continue;
      if (what == analysis::Captured::logits && component > 0) continue;  // once per input
      if (!layout.available(what)) {
        const bool logits = what == analysis::Captured::logits;
        context_.warnings.add(logits ? "no_output_head" : "not_in_checkpoint",
                              fmt::format("{} of --include is left out, because the checkpoint has no {}",
                                          name_of(what), logits ? "output head" : "W_V"));
        continue;
      }
      for (std::size_t s = 0; s < found_.shown.sequences.size(); ++s)
        found_.arrays.push_back(
            {what, s, component, {layout.shape(what, found_.shown.sequences[s]), {}, nullptr}});
    }
  }
}

void Inspection::check_sizes() {
  std::uint64_t values =
      saturating_sum(values_of_heads(found_), values_of_weights(found_), values_of_patterns(found_));
  for (const auto& analysis : analyses_) values = saturating_sum(values, analysis->values());
  const bool streamed = request_.form == Form::arrays;  // arrays are written while they are computed
  constexpr std::uint64_t kTextBytes = 13;  // approximate bytes of one value in JSON, with its comma
  if (!streamed && values > request_.limit) {
    fail(Status::limit,
         "the output has up to {} values; as {} they take about {} bytes, and --limit allows {} values; "
         "select fewer --layers or --heads, request less with --include, use --format npz, or raise --limit",
         values, request_.format, checked_mul(values, kTextBytes).value_or(values), request_.limit);
  }
  plan_memory_use(streamed ? 0 : values);
}

void Inspection::plan_memory_use(std::uint64_t kept_values) {
  if (request_.memory == 0) return;
  const Includes& includes = request_.includes;
  const Observers observers(*this, [](const InputArray& /*array*/) { return nullptr; });
  WorkBytes work;
  if (subject_.stored != nullptr) {
    const forward::ObserverGroup all(observers.all);
    work.kept = saturating_sum(subject_.stored->bytes(context_), all.memory(subject_.model, subject_.batch));
  } else if (!subject_.batch.sequences.empty() && !observers.all.empty())
    work = pass_bytes(subject_.model, subject_.batch, observers.heads, observers.all, context_);
  work.kept += kept_values * sizeof(float);
  for (const InputArray& planned : found_.arrays) {
    constexpr std::size_t kHugePage = std::size_t{1} << 21U;  // large arrays occupy whole huge pages
    if (kept_values > 0 && checked_product(planned.array.shape).value_or(0) >= kHugePage / 2)
      work.kept += kHugePage;
  }
  if (includes.has("weights") || includes.has("directions"))
    add_weights_bytes(subject_.model, request_.selection, request_.weights, context_.pool.size(), work);
  const auto of_weights = [](const AnalysisRow* row) { return row->make != nullptr && !row->of_inputs(); };
  if (includes.has("circuits") || std::ranges::any_of(includes.rows, of_weights)) {
    // These compare the factors of all selected heads at once: the weights and a copy of them in double.
    for (const std::size_t layer : request_.selection.layers())
      work.kept += 3 * subject_.model.attention_bytes(layer);
  }
  for (const auto& analysis : analyses_) work.kept = saturating_sum(work.kept, analysis->bytes());
  context_.streamed_rows = plan_memory(request_.memory, work);
}

void Inspection::compute(const SinkOf& sink_of) {
  const Includes& includes = request_.includes;
  if (includes.has("weights") || includes.has("directions")) {
    analysis::WeightsOptions options = request_.weights;
    if (!includes.has("directions")) options.directions = 0;
    options.streamed = context_.streamed_rows > 0;
    found_.weights = analysis::analyze_weights(subject_.model, request_.selection, options, context_.pool,
                                               context_.warnings);
  }
  if (!subject_.batch.sequences.empty()) {
    const Observers observers(*this, sink_of);
    if (subject_.stored != nullptr)
      subject_.stored->run(observers.heads, observers.all, context_);
    else if (!observers.all.empty())
      analysis::run_axial(subject_.model, subject_.batch, subject_.grid, observers.heads, observers.all,
                          context_);
    if (includes.has("metrics")) found_.pattern_metrics = observers.metrics.finish();
    if (!found_.questions.empty()) found_.answers = observers.answers.finish();
  }
  for (const auto& analysis : analyses_) found_.analyses.push_back(analysis->finish());
}

Results Inspection::run() {
  std::deque<analysis::MemorySink> sinks;
  compute([&](const InputArray& planned) {
    return &sinks.emplace_back(planned.array.shape, planned.what == analysis::Captured::scores);
  });
  for (std::size_t i = 0; i < sinks.size(); ++i) found_.arrays[i].array = sinks[i].take();
  return results_of(found_);
}

void Inspection::run(ArrayOutput& out) {
  add_selection_arrays(out, found_);
  compute([&](const InputArray& planned) {
    const bool of_run = planned.what == analysis::Captured::logits;
    const std::string prefix = of_run ? "" : prefix_of(found_.components[planned.component].component);
    return &out.add_streamed(fmt::format("{}{}_{}", prefix, name_of(planned.what), planned.sequence),
                             planned.array.shape, planned.what == analysis::Captured::scores);
  });
  for (const Results& analysis : found_.analyses) {
    const std::string prefix = prefix_of(found_.components.front().component);  // the only component
    for (const Tensor& each : analysis.arrays) out.add(prefix + each.name, each);
  }
  add_heads_arrays(out, found_);
  add_weights_arrays(out, found_);
}

Results Inspection::tables() const {
  Results results;
  add_heads(results, found_);
  add_weights(results, found_);
  add_analyses(results, found_);
  return results;
}

Results results_of(const RunResults& run) {
  Results results;
  const auto add = [&](const auto&... parts) { (parts(results, run), ...); };
  if (run.request.weighting != analysis::Weighting::weights)
    results.document.head.set("weighting",
                              run.request.weighting == analysis::Weighting::norm ? "norm" : "norm-row");
  switch (run.request.form) {
    case Form::document:
      add(add_inputs, add_heads, add_weights, add_patterns, add_answers, add_analyses, add_captured);
      break;
    case Form::tables:
      add(add_heads, add_weights, add_patterns, add_answers, add_analyses, add_captured, add_inputs);
      break;
    case Form::text:
      add(add_inputs, add_missing, add_answers, add_captured);
      if (run.shown.sequences.empty()) {
        add(add_weights, add_heads);
      } else {
        add(add_patterns, add_heads, add_weights);
      }
      add(add_analyses);
      break;
    case Form::pictures:
      add(add_patterns, add_analyses, add_answers, add_weights, add_heads);
      add_subtitles(results, run);
      break;
    case Form::page:
      add(add_patterns, add_heads, add_answers, add_weights, add_analyses, add_captured, add_inputs);
      add_subtitles(results, run);
      break;
    case Form::arrays:  // see Inspection::run(ArrayOutput&)
      break;
  }
  results.picture_hint =
      "add one of these to --include: patterns, weights, subspaces, composition, map, rollout, flow, "
      "contributions, mixing, sinks, activations";
  return results;
}

}  // namespace attnctl::inspect
