#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/options/analysis_request.hpp"
#include "cli/options/selection.hpp"

namespace attnctl::cli {
namespace {

/// Parses "none", or ranks separated by commas.
void parse_output_ranks(const std::string& list, AnalysisRequest& request) {
  request.output_rank = list != "none";
  request.output_ranks.clear();
  if (!request.output_rank) return;
  for (const std::string_view word : split(list, ',')) {
    const auto rank = parse_number(word);
    if (!rank || *rank == 0) {
      fail(Status::usage, "--output-rank: got \"{}\", need ranks from 1 such as 1,2,4, or none",
           escaped(list));
    }
    request.output_ranks.push_back(*rank);
  }
}

/// Adds the options for the weighting of patterns, and for rollout, flow and contributions.
void add_mixing_options(Command& command, AnalysisRequest& request) {
  command.add(
      "Mixing",
      {{.names = "--weighting",
        .target = choice<Weighting>(
            request.weighting,
            {{"weights", Weighting::weights}, {"norm", Weighting::norm}, {"norm-row", Weighting::norm_row}}),
        .help = "Patterns to show: weights, norms |weight f(x)|, or norms with rows that sum to 1",
        .type = "weights|norm|norm-row"},
       {.names = "--rollout-fusion",
        .target = choice<HeadFusion>(
            request.rollout.fusion,
            {{"mean", HeadFusion::mean}, {"max", HeadFusion::max}, {"min", HeadFusion::min}}),
        .help = "How rollout and flow combine the heads of a layer",
        .type = "mean|max|min"},
       {.names = "--rollout-residual",
        .target = &request.rollout.residual,
        .help = "Weight of the residual in rollout and flow, 0 to 1 (default: 0.5)",
        .type = "W",
        .range = Range{0.0, 1.0}},
       {"--rollout-from", &request.rollout_from,
        "Compute rollout and flow only from this token of the last layer: a word, word#2, or a position",
        "TOKEN"},
       {.names = "--output-rank",
        .target = [&request](const std::string& list) { parse_output_ranks(list, request); },
        .help = "Ranks to which contributions truncate W_O (default: 1,2,4,...), or none",
        .type = "RANKS|none"}});
}

void add_token_options(Command& command, AnalysisRequest& request) {
  command.add(
      "Selection",
      {{"--per-input", &request.selection.per_input, "Compute metrics per input instead of over all inputs"},
       {"--from", &request.from,
        "Show what this token attends to in every head: a word, word#2, or a position", "TOKEN"},
       {.names = "--to",
        .target = &request.to,
        .help = "With --from: show the weight on these tokens",
        .type = "TOKENS",
        .split = true},
       {"--show", &request.show,
        "Draw the pattern of a head (3.1), or of all heads of a layer (3), after their mean", "HEAD"},
       {"--by-word", &request.by_word, "Merge word pieces into words in all pattern output"},
       {.names = "--pool-from",
        .target = choice<PoolFrom>(request.pool_from, {{"mean", PoolFrom::mean}, {"first", PoolFrom::first}}),
        .help =
            "With --by-word: attention from a word is the mean over its pieces, or that of the first piece",
        .type = "mean|first"}});
}

/// Adds the selection of heads and analyses.
void add_selection(Command& command, AnalysisRequest& request, const std::string& default_include) {
  add_selection_options(command, request.selection, default_include);
  std::ranges::find(command.options, "--include", &Option::names)->given = &request.include_given;
}

}  // namespace

Command analyze_command() {
  Command command{.name = "analyze",
                  .about = "Compute patterns, metrics of every head, and weights analyses"};
  auto request = std::make_shared<AnalysisRequest>();
  add_model_options(command, request->model);
  add_input_options(command, request->inputs);
  add_selection(command, *request, "metrics,patterns,weights");
  add_attention_option(command, request->selection);
  add_token_options(command, *request);
  add_mixing_options(command, *request);
  add_output_options(command, request->output);
  add_run_options(command, request->run);
  command.footer =
      "Examples:\n"
      "  attnctl analyze data/tiny-bert --text \"The cat sat because it was tired.\" --from it --to "
      "cat,tired\n"
      "  attnctl analyze data/tiny-bert --text \"The cat didn't sit down.\" --by-word --show 0.3\n"
      "  attnctl analyze data/attention-demo.json --input data/sentences.jsonl --from it --to animal,tired\n"
      "  attnctl analyze data/tiny-bert --text \"The cat sat because it was tired.\" --include rollout,flow "
      "--rollout-from it\n"
      "  attnctl analyze data/tiny-llama --ids 5,6,7,8 | jq '.heads[0]'\n"
      "  printf 'One line.\\nAnother.\\n' | attnctl analyze data/tiny-llama --input - --input-format txt\n"
      "  attnctl analyze data/tiny-bert --input data/tiny-bert/sentences.jsonl --include metrics --format "
      "text --sort "
      "next_token --top 3\n"
      "  attnctl analyze data/tiny-llama --ids 5,6,7,8 --layers 0,2-3 -o patterns.npz\n"
      "  attnctl analyze data/tiny-llama --ids 5,6,7,8 --format csv -o tables";
  command.action = [request] { run_analysis(*request); };
  return command;
}

Command weights_command() {
  Command command{.name = "weights",
                  .about = "Analyze the weights only: similarity of heads, ranks, directions"};
  auto request = std::make_shared<AnalysisRequest>();
  request->with_inputs = false;
  add_model_options(command, request->model);
  add_selection(command, *request, "weights,directions");
  add_output_options(command, request->output);
  add_run_options(command, request->run);
  command.footer =
      "Examples:\n"
      "  attnctl weights data/tiny-llama --format text\n"
      "  attnctl weights data/tiny-llama --layers 2 --format svg > similarity.svg\n"
      "  attnctl weights data/tiny-llama --include subspaces,composition --format text\n"
      "  attnctl weights data/tiny-bert --across-layers --order cluster --format svg > heads.svg\n"
      "  attnctl weights data/tiny-bert --across-layers --include weights | jq "
      "'.subspace_similarity[0].heads'";
  command.action = [request] { run_analysis(*request); };
  return command;
}

}  // namespace attnctl::cli
