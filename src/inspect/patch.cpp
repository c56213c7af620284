#include "inspect/patch.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"
#include "analysis/model_summary.hpp"
#include "base/error.hpp"
#include "causal/gradient.hpp"
#include "causal/patching.hpp"
#include "forward/block.hpp"
#include "inspect/attribute.hpp"
#include "inspect/memory_plan.hpp"

namespace attnctl::inspect {
namespace {

using analysis::row_of;
using causal::HeadInput;

constexpr auto kPatchDefinitions = std::to_array<Definition>({
    {"patches.effect", "", "", "0: the head carries nothing of the difference; 1: all of it",
     "(metric with the patch - metric of the receiving run) / (metric of the other run - metric of the "
     "receiving run)",
     "Heimersheim and Nanda 2024"},
    {"paths.effect", "", "", "0", "effect if only this input of the second head sees the patched first head",
     "Wang et al. 2022"},
    {"estimate", "", "", "0",
     "first-order estimate of the effect: sum over positions of (patched z - z) . d metric / dz, divided "
     "like effect",
     "Nanda 2023, attribution patching"},
    {"grad_drop", "", "from 0", "0",
     "the size of the estimate if the gradient passes around one layer: sum over layers of |estimate "
     "without this layer| / (layers - 1); large where direct and indirect effects cancel in estimate",
     "Kram\u00e1r et al. 2024, GradDrop of AtP*"},
    {"part", "", "", "", "what is patched: z, pattern or value"},
    {"position", "tokens", "from 0", "", "the only position that is patched; empty: all"},
    {"token", "", "", "",
     "the token of the receiving input (in the decoder: of its target) at this position"},
    {"metric", "", "", "", "logit of the right answer - logit of the wrong answer, with the patch"},
    {"change", "", "", "0", "metric - metric of the receiving run"},
    {"from", "", "", "", "the head whose z is patched"},
    {"to", "", "", "", "the later head that sees the patch"},
    {"via", "", "", "", "the input of the later head that sees the patch: query, key or value"},
});

/// The first-order estimates of the effect of a patch: from the whole gradient, and the mean size of those
/// from gradients without one layer.
struct PatchEstimate {
  double change = kUndefined, grad_drop = kUndefined;
};

/// One run with its recorded values.
struct PatchRun {
  input::Batch batch;
  std::vector<causal::RecordedSequence> recorded;
  std::vector<std::vector<causal::HeadParts>> parts;  // [layers][heads]; empty if not needed
};

/// Returns the first position where two sequences of different lengths differ, with the tokens there.
std::string difference_text(const input::Sequence& a, const input::Sequence& b,
                            const tokenizer::Vocabulary& vocabulary) {
  const auto place = static_cast<std::size_t>(std::ranges::mismatch(a.ids, b.ids).in1 - a.ids.begin());
  const auto token = [&](const input::Sequence& of) {
    return place < of.ids.size() ? in_quotes(token_text(vocabulary, of.ids[place])) : "no token";
  };
  return fmt::format("position {}: {} and {}", place, token(a), token(b));
}

void check_inputs(const PatchRequest& request, const OpenModel& open) {
  const model::ModelConfig& config = open.model.config();
  const auto check_lengths = [&](const char* options, const input::Sequence& clean,
                                 const input::Sequence& corrupt) {
    if (clean.queries() != corrupt.queries())
      fail(Status::bad_input,
           "{}: got {} and {}, which first differ at {}; need texts of equally many tokens, because each "
           "position takes the value of the same position (attnctl tokenize shows the tokens)",
           options, tokens_text(clean), tokens_text(corrupt),
           difference_text(clean, corrupt, open.vocabulary));
  };
  check_lengths("--clean and --corrupt", request.clean, request.corrupt);
  check_lengths("the targets of --clean and --corrupt", request.clean.predicted(),
                request.corrupt.predicted());
  if (!config.head.present)
    fail(Status::bad_input,
         "{}: the checkpoint has no output head, so the model makes no predictions; give a "
         "model with an output head",
         escaped(open.model.name()));
  if (!request.paths.empty() && !causal::has_additive_stream(config))
    fail(Status::bad_input,
         "{}: --path needs a model whose heads add to the residual stream; this model has norms after the "
         "sum, or a convolution",
         escaped(open.model.name()));
}

/// Patches the runs of a request.
class Patcher {
 public:
  Patcher(const PatchRequest& request, OpenModel& open, forward::RunContext& context)
      : request_(request), open_(open), context_(context), config_(open.model.config()) {
    check_inputs(request, open);
    receiver_.batch.sequences = {request.into_clean ? request.clean : request.corrupt};
    donor_.batch.sequences = {request.into_clean ? request.corrupt : request.clean};
    context.streamed_rows = plan_memory(request.memory, memory());
    const std::size_t query =
        predicting_position(receiver(), open, request.into_clean ? "--clean" : "--corrupt");
    if (query !=
        predicting_position(donor_.batch.sequences[0], open, request.into_clean ? "--corrupt" : "--clean"))
      fail(Status::bad_input, "--clean and --corrupt: need the mask token at the same position");
    scored_ = {{.queries = {}, .targets = {}, .answer = query}};
    answer_ = request.answer ? *request.answer : default_answer(query);
    for (PatchRun* const run : {&receiver_, &donor_})
      if (needs_parts())
        run->parts = causal::record_parts(open.model, run->batch, context, request.selection);
    const causal::CausalPass of_donor(
        {.model = open.model, .batch = donor_.batch, .scored = scored_, .answer = answer_}, context);
    donor_metric_ = of_donor.predictions()[0].logit_difference;
    donor_.recorded = of_donor.recorded();
  }

  Results run() {
    const causal::CausalPass pass(
        {.model = open_.model, .batch = receiver_.batch, .scored = scored_, .answer = answer_}, context_);
    metric_ = pass.predictions()[0].logit_difference;
    if (!(std::abs(donor_metric_ - metric_) > 0))
      fail(Status::bad_input,
           "the logit difference of {} and {} is {:.6g} in both runs, so there is no effect to explain; give "
           "other texts, or other tokens (--answer, --wrong)",
           in_quotes(token_text(open_.vocabulary, answer_.right)),
           in_quotes(token_text(open_.vocabulary, answer_.wrong)), metric_);
    Results results;
    describe(results);
    add_patches(pass, results);
    add_paths(pass, results);
    return results;
  }

 private:
  [[nodiscard]] bool needs_parts() const {
    return std::ranges::any_of(request_.parts, [](PatchedPart part) { return part != PatchedPart::z; });
  }

  /// Returns the memory of both runs and their patches.
  [[nodiscard]] WorkBytes memory() const {
    WorkBytes bytes = causal_bytes(open_.model, receiver_.batch, 1, false, context_.pool.size());
    bytes.kept = saturating_sum(bytes.kept, bytes.kept);
    const std::uint64_t n = receiver_.batch.most_keys();
    std::uint64_t values = 0, rows = request_.parts.size() * request_.selection.heads.size();
    // The derivatives of the stream without each layer.
    bytes.kept = saturating_sum(bytes.kept, 3 * n * config_.layers.size() * config_.d_model * sizeof(float));
    for (const model::HeadId id : request_.selection.heads) {
      const std::uint64_t width = config_.layers[id.layer].attention.d_value;
      values += request_.parts.size() * n * width;       // the patched z
      if (needs_parts()) values += 2 * n * (n + width);  // causal::HeadParts of both runs
      if (request_.by_position) rows += n;
    }
    constexpr std::uint64_t of_row = 1024;  // a row of the results
    bytes.kept = saturating_sum(bytes.kept, values * sizeof(float), rows * of_row);
    return bytes;
  }

  [[nodiscard]] const input::Sequence& receiver() const { return receiver_.batch.sequences[0]; }

  [[nodiscard]] causal::AnswerTokens default_answer(std::size_t query) {
    input::Batch clean, corrupt;
    clean.sequences = {request_.clean};
    corrupt.sequences = {request_.corrupt};
    const causal::AnswerTokens answer{best_token(open_.model, clean, query, context_),
                                      best_token(open_.model, corrupt, query, context_)};
    if (answer.right == answer.wrong)
      fail(Status::bad_input,
           "the most probable token is {} in both runs; name two tokens whose logits to compare (--answer, "
           "--wrong)",
           in_quotes(token_text(open_.vocabulary, answer.right)));
    return answer;
  }

  void describe(Results& results) const {
    const auto run_record = [&](const input::Sequence& sequence, double metric) {
      return input_record(sequence).set("metric", static_cast<float>(metric));
    };
    const bool into_clean = request_.into_clean;
    const double clean = into_clean ? metric_ : donor_metric_, corrupt = into_clean ? donor_metric_ : metric_;
    const std::string right = token_text(open_.vocabulary, answer_.right),
                      wrong = token_text(open_.vocabulary, answer_.wrong);
    results.document.head.set("model", analysis::model_record(open_.model))
        .set("clean", run_record(request_.clean, clean))
        .set("corrupt", run_record(request_.corrupt, corrupt))
        .set("into", into_clean ? "clean" : "corrupt")
        .set("answer", right)
        .set("wrong", wrong)
        .set("query", *scored_.front().answer);
    results.text.emplace_back(TextLine{
        open_.model.name(), fmt::format(": logit of {} minus logit of {}: {:.3f} in the clean run, {:.3f} in "
                                        "the corrupt run",
                                        in_quotes(right), in_quotes(wrong), clean, corrupt)});
    results.text.emplace_back(TextLine{
        "Patches", fmt::format(" go into the {} run: effect 0 leaves it as it is, 1 makes it like the {} run",
                               into_clean ? "clean" : "corrupt", into_clean ? "corrupt" : "clean")});
    results.subtitle = {open_.model.name()};
    std::ranges::move(input_lines("Clean: ", request_.clean), std::back_inserter(results.subtitle));
    std::ranges::move(input_lines("Corrupt: ", request_.corrupt), std::back_inserter(results.subtitle));
  }

  /// Returns the metric and effect columns of a patched run.
  [[nodiscard]] std::vector<Cell> effect_cells(const causal::Effect& effect) const {
    return row_of(metric_ + effect.logit_difference, effect.logit_difference,
                  effect.logit_difference / (donor_metric_ - metric_));
  }

  /// Returns the z of a head that a patch of one of its parts gives.
  [[nodiscard]] OwnedMatrix<float> patched_z(PatchedPart part, model::HeadId id) const {
    if (part == PatchedPart::z) return causal::copy_of(donor_z(id));
    const causal::HeadParts& own = receiver_.parts[id.layer][id.head];
    const causal::HeadParts& other = donor_.parts[id.layer][id.head];
    return causal::weighted_values((part == PatchedPart::pattern ? other : own).pattern.view(),
                                   (part == PatchedPart::value ? other : own).values.view());
  }
  [[nodiscard]] MatrixView<const float> donor_z(model::HeadId id) const {
    const std::size_t width = config_.layers[id.layer].attention.d_value;
    return donor_.recorded[0].z[id.layer].view().col_range(id.head * width, width);
  }

  void add_patches(const causal::CausalPass& pass, Results& results) {
    std::vector<OwnedMatrix<float>> values;  // keeps its elements in place: reserved below
    values.reserve(request_.parts.size() * request_.selection.heads.size());
    std::vector<causal::Intervention> interventions;
    std::vector<std::vector<Cell>> rows;
    for (const PatchedPart part : request_.parts) {
      for (const model::HeadId id : request_.selection.heads) {
        const OwnedMatrix<float>& z = values.emplace_back(patched_z(part, id));
        const bool positions = request_.by_position && part == PatchedPart::z;
        const input::Sequence& queries =
            forward::sides_of(config_.layers[id.layer].component, receiver()).queries_of;
        for (std::size_t p = 0; p <= (positions ? queries.queries() : 0); ++p) {
          const std::optional<std::size_t> position = p == 0 ? std::nullopt : std::optional(p - 1);
          interventions.push_back({0, {{id, {z.view(), position}}}, {}});
          rows.push_back(row_of(
              analysis::head_cells(config_, id), name_of(part),
              position ? Cell(static_cast<std::int64_t>(*position)) : Cell(),
              position && *position < queries.tokens.size() ? Cell(queries.tokens[*position]) : Cell()));
        }
      }
    }
    const std::vector<causal::Effect> effects = pass.run(interventions, context_);
    const std::vector<PatchEstimate> estimates = estimates_of(pass, interventions);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      analysis::add_cells(rows[i], effect_cells(effects[i]));
      analysis::add_cells(rows[i], row_of(estimates[i].change, estimates[i].grad_drop));
      order.push_back(i);
    }
    const std::vector<Column> columns =
        columns_of(kPatchDefinitions,
                   {"component", "layer", "head", "name", "part", "position", "token", "metric", "change"});
    std::vector<Column> all = columns;
    all.emplace_back("effect", kPatchDefinitions[0]);
    for (const char* const name : {"estimate", "grad_drop"})
      all.emplace_back(*std::ranges::find(kPatchDefinitions, name, &Definition::name));
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](std::size_t i) { return std::abs(effects[i].logit_difference); });
    constexpr std::size_t kMostPatches = 20;
    std::vector<std::vector<Cell>> top;
    for (std::size_t i = 0; i < std::min(order.size(), kMostPatches); ++i) {
      const std::vector<Cell>& row = rows[order[i]];
      top.push_back({row[3], row[4], row[5], row[6], row[7], row[9], row[10], row[11]});
    }
    results.text.emplace_back(TextTable{
        "Patches with the largest effects",
        make_table("patches",
                   {"head", "part", "position", "token", "metric", "effect", "estimate", "grad_drop"},
                   std::move(top))});
    if (order.size() > kMostPatches)
      results.text.emplace_back(TextLine{
          "", counted(order.size() - kMostPatches, "more patch", "more patches") + ": --format json"});
    results.add_table("patch", make_table("patches", std::move(all), std::move(rows)));
    HeatmapPage page = heads_page(results, "patches.effect");
    page.title = "Effect of Patching Heads";
    results.pictures.push_back({"patches", std::move(page)});
  }

  /// Returns the first-order estimates of the effects of interventions.
  [[nodiscard]] std::vector<PatchEstimate> estimates_of(
      const causal::CausalPass& pass, const std::vector<causal::Intervention>& interventions) {
    std::vector<PatchEstimate> estimates(interventions.size());
    const double distance = donor_metric_ - metric_;
    const std::size_t layers = config_.layers.size();
    const auto change = [&](std::size_t i, const causal::HeadGradients& gradients) {
      return causal::estimate(config_, interventions[i], pass.recorded()[0], gradients).change / distance;
    };
    const auto layer_of = [&](std::size_t i) { return interventions[i].heads.front().head.layer; };
    std::vector<double> sizes(interventions.size(), 0);  // sum of those without one of the later layers
    const auto add_size = [&](std::size_t /*dropped*/, std::size_t layer, std::size_t /*sequence*/,
                              MatrixView<const float> d_z) {
      causal::HeadGradients gradients;
      gradients.d_z.resize(layers);
      gradients.d_z[layer] = causal::copy_of(d_z);
      for (std::size_t i = 0; i < interventions.size(); ++i)
        if (layer_of(i) == layer) sizes[i] += std::abs(change(i, gradients));
    };
    const causal::HeadGradients gradients =
        causal::difference_gradients(open_.model, receiver_.batch, scored_, answer_, pass.recorded(),
                                     context_, {.without_layer = add_size})
            .front();
    for (std::size_t i = 0; i < interventions.size(); ++i) {
      estimates[i].change = change(i, gradients);
      if (layers == 1) continue;  // no other layer can be dropped
      // An earlier layer changes nothing; without the layer of the head, the estimate is 0.
      const double earlier = static_cast<double>(layer_of(i)) * std::abs(estimates[i].change);
      estimates[i].grad_drop = (sizes[i] + earlier) / static_cast<double>(layers - 1);
    }
    return estimates;
  }

  void add_paths(const causal::CausalPass& pass, Results& results) {
    if (request_.paths.empty()) return;
    struct Path {
      model::HeadId from, to;
      HeadInput input;
    };
    std::vector<Path> paths;
    for (const auto& [from, to] : request_.paths)
      for (const HeadInput input : causal::path_inputs(config_, from, to)) paths.push_back({from, to, input});
    std::vector<OwnedMatrix<float>> values;
    values.reserve(paths.size());
    std::vector<causal::Intervention> interventions;
    for (const Path& path : paths) {
      values.push_back(causal::z_after_path(open_.model, receiver_.batch, pass.recorded()[0], path.from,
                                            donor_z(path.from), path.to, path.input, context_));
      interventions.push_back({0, {{path.to, {values.back().view(), std::nullopt}}}, {}});
    }
    const std::vector<causal::Effect> effects = pass.run(interventions, context_);
    std::vector<std::vector<Cell>> rows;
    constexpr std::array kNames = {"query", "key", "value"};
    for (std::size_t i = 0; i < paths.size(); ++i) {
      rows.push_back(row_of(model::head_name(config_, paths[i].from), model::head_name(config_, paths[i].to),
                            kNames.at(static_cast<std::size_t>(paths[i].input)), effect_cells(effects[i])));
    }
    std::vector<Column> columns = columns_of(kPatchDefinitions, {"from", "to", "via", "metric", "change"});
    columns.emplace_back("effect", kPatchDefinitions[1]);
    const Table table = make_table("paths", std::move(columns), std::move(rows));
    results.text.emplace_back(TextTable{"Paths", table});
    results.add_table("path", table);
  }

  const PatchRequest& request_;
  OpenModel& open_;
  forward::RunContext& context_;
  const model::ModelConfig& config_;
  PatchRun receiver_, donor_;
  std::vector<causal::ScoredQueries> scored_;
  causal::AnswerTokens answer_;
  double metric_ = 0, donor_metric_ = 0;  // of the receiving run and of the other one
};

}  // namespace

std::string_view name_of(PatchedPart part) {
  return part == PatchedPart::z ? "z" : part == PatchedPart::pattern ? "pattern" : "value";
}

std::span<const Definition> patch_definitions() {
  return kPatchDefinitions;
}

Results patch_heads(const PatchRequest& request, OpenModel& open, forward::RunContext& context) {
  return Patcher(request, open, context).run();
}

}  // namespace attnctl::inspect
