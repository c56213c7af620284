#include "inspect/analysis_plan.hpp"

#include <utility>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/tables.hpp"
#include "cli/options/inputs.hpp"
#include "cli/session.hpp"
#include "input/token_query.hpp"

namespace attnctl::cli {

Includes resolve_includes(const AnalysisRequest& request, const Target& target) {
  Includes includes = parse_includes(request.selection.include);
  if (!request.with_inputs && includes.of_inputs()) {
    std::string known = "weights, directions, circuits";
    for (const PartRow& part : part_rows()) {
      if (!part.of_inputs) known += fmt::format(", {}", part.include);
    }
    fail(Status::usage, "--include: weights has no inputs; it knows {}", known);
  }
  if (target.format == Format::csv) {
    if (!request.with_inputs && !request.include_given) includes.directions = false;  // no CSV table
    require_tables(includes);
  }
  // The summary and the pictures show whole patterns only if --include names them.
  const bool summary = target.format == Format::text || target.format == Format::svg;
  if (summary && !request.include_given) includes.patterns = false;
  return includes;
}

std::vector<Question> resolve_questions(const AnalysisRequest& request, const Batch& batch,
                                        Component component, const Vocabulary& vocabulary,
                                        Warnings& warnings) {
  std::vector<Question> questions;
  if (request.from.empty()) {
    if (!request.to.empty()) fail(Status::usage, "--to goes with --from");
    return questions;
  }
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    const Sequence& sequence = batch.sequences[s];
    const Sides sides = sides_of(component, sequence);
    Question question{
        {.sequence = s, .from = find_word(sides.queries_of, vocabulary, request.from), .to = {}},
        request.from,
        {}};
    if (question.positions.from.empty()) {
      warnings.add("from_not_found",
                   fmt::format("--from: \"{}\" is not in input \"{}\"", request.from, sequence.id));
      continue;
    }
    question.positions.top = request.output.top.value_or(question.positions.top);
    for (const std::string& name : request.to) {
      std::vector<std::size_t> keys = find_word(sides.keys_of, vocabulary, name);
      if (keys.empty()) {
        warnings.add("to_not_found", fmt::format("--to: \"{}\" is not in input \"{}\"", name, sequence.id));
        continue;
      }
      question.positions.to.push_back(std::move(keys));
      question.to.push_back(name);
    }
    questions.push_back(std::move(question));
  }
  if (questions.empty())
    fail(Status::usage, "--from: \"{}\" is in none of the inputs", escaped(request.from));
  return questions;
}

void check_components(const AnalysisRequest& request, const Includes& includes,
                      std::span<const ComponentHeads> components) {
  const bool single = components.size() == 1;
  if (single && components.front().component == Component::none) return;
  for (const PartRow* part : includes.parts) {
    if (part->stacks == Stacks::one)
      fail(Status::usage, "--include {} is unsupported for models of an encoder and a decoder",
           part->include);
    if (part->stacks == Stacks::not_cross && single && components.front().component == Component::cross)
      fail(Status::usage, "--include {} is of self-attention: use --component encoder or decoder",
           part->include);
  }
  if (single) return;
  const auto refuse = [](const std::string& what) {
    fail(Status::usage, "{} works on one component at a time: add --component encoder, decoder or cross",
         what);
  };
  if (!request.from.empty()) refuse("--from");
  if (request.selection.across_layers) refuse("--across-layers");
  if (!includes.parts.empty()) refuse(fmt::format("--include {}", includes.parts.front()->include));
}

std::vector<Captured> captured_parts(const Includes& includes) {
  std::vector<Captured> parts;
  const auto add = [&](bool wanted, Captured part) {
    if (wanted) parts.push_back(part);
  };
  add(includes.patterns, Captured::pattern);
  add(includes.scores, Captured::scores);
  add(includes.queries, Captured::queries);
  add(includes.keys, Captured::keys);
  add(includes.values, Captured::values);
  add(includes.z, Captured::z);
  add(includes.output, Captured::output);
  add(includes.logits, Captured::logits);
  return parts;
}

void check_values(std::uint64_t values, Format format, const RunOptions& run) {
  constexpr std::uint64_t kTextBytes = 13;  // a weight in its shortest text form, with a comma
  if (values > run.limit) {
    fail(Status::limit,
         "{} values as {} take about {} bytes, over --limit {}; select --layers or --heads, leave out of "
         "--include, use "
         "--format npz, or raise --limit",
         values, to_string(format), checked_mul(values, kTextBytes).value_or(values), run.limit);
  }
}

}  // namespace attnctl::cli
