#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/heads_table.hpp"
#include "analysis/model_summary.hpp"
#include "cli/commands.hpp"
#include "cli/options/inputs.hpp"
#include "cli/session.hpp"
#include "inspect/inspection.hpp"
#include "inspect/stored/stored_patterns.hpp"
#include "report/npz.hpp"

namespace attnctl::cli {
namespace {

struct AnalysisRequest : CommandOptions {
  inspect::InspectRequest inspect;
  std::string include;                            // --include
  bool include_given = false;                     // true if the command line has --include
  std::string show;                               // --show: a head L.H or a layer L; empty: not given
  inspect::Given given = inspect::Given::inputs;  // the command: weights, analyze or view
  inspect::StoredRequest stored;                  // for view

  [[nodiscard]] bool with_inputs() const { return given != inspect::Given::weights; }
};

/// Sets the selection from --show, which is a head ("3.1", "L3H1" or "enc.3.1") or a layer ("3" or "enc.3").
void select_shown(AnalysisRequest& request) {
  constexpr std::pair<const char*, const char*> kPrefixes[] = {
      {"enc.", "encoder"}, {"dec.", "decoder"}, {"cross.", "cross"}};
  constexpr const char* kHeadMarks = ".:Hh";
  const std::string& show = request.show;
  request.selection.option = "--show";
  for (const auto& [prefix, component] : kPrefixes) {
    const std::size_t number = show.find('.') + 1;
    if (!show.starts_with(prefix) || show.find_first_of(kHeadMarks, number) != std::string::npos) continue;
    request.selection.component = component;
    request.selection.layers = show.substr(number);
    return;
  }
  const bool head = show.find_first_of(kHeadMarks) != std::string::npos;
  (head ? request.selection.heads : request.selection.layers) = show;
}

/// Applies --show, if given: the result draws the pattern of head L.H, or the mean pattern of layer L and the
/// patterns of its heads. Throws Error(usage) if other options contradict --show.
void apply_show(AnalysisRequest& request) {
  if (request.show.empty()) return;
  if (!request.selection.layers.empty() || !request.selection.heads.empty())
    fail(Status::usage, "--show selects a head or a layer: remove --layers and --heads");
  if (request.include_given || !request.output.plot.empty())
    fail(Status::usage, "--show always draws patterns: remove --{}",
         request.include_given ? "include" : "plot");
  const std::string& format = request.output.format;
  const bool picture = writes_picture(request.output);
  if (!picture && !format.empty() && format != "text")
    fail(Status::usage, "--show needs --format text, svg, png or pdf, got {}", format);
  if (picture && !request.inspect.from.empty())
    fail(Status::usage, "--show and --from are two pictures: remove one of them, or use --format text");
  if (request.inspect.weighting == analysis::Weighting::norm && !picture) {
    fail(Status::usage,
         "--show: text can only draw values from 0 to 1, and those of --weighting norm may be larger; use "
         "--weighting norm-row, or -o FILE.svg, .png or .pdf");
  }
  select_shown(request);
  request.include = "patterns";
  request.include_given = true;
  if (request.output.path.empty() && request.output.format.empty()) request.output.format = "text";
}

/// Adds a warning for each of --sort, --top and --to that does not change the results in the chosen format.
void warn_unused_analysis_options(const inspect::InspectRequest& request, bool with_inputs,
                                  Warnings& warnings) {
  using inspect::Form;
  const Form form = request.form;
  const bool text = form == Form::text;
  const bool lists = form == Form::document || form == Form::tables;
  const bool has_lists = lists && (!request.from.empty() || request.includes.has("logits"));
  if (!request.sort.empty() && !text) warnings.add("unused_sort", "--sort sorts only text");
  if (request.top && !text && !has_lists)
    warnings.add("unused_top",
                 fmt::format("--top changes only text{}",
                             with_inputs ? " and, in json and csv, the answer to --from and logits" : ""));
  const auto is_sort = [&](const std::string& name) { return name == request.sort; };  // has unused_sort
  if (form == Form::pictures && !std::ranges::all_of(request.to, is_sort))
    warnings.add("unused_to", "--to does not change pictures, which show the weights on all keys");
}

void write_npz(inspect::Inspection& inspection, const Target& target, bool compress, Session& session) {
  OutputFile out(target.path);
  report::NpzWriter npz(out, {.compress = compress, .pool = &session.pool});
  inspection.run(npz);
  warn_non_finite(session.warnings, "arrays", npz.non_finite());
  check_before_commit(session);  // close() sends the file to a pipe, so the checks run first
  npz.close();
  out.commit();
}

/// Completes the request for the format of the target, and sets the results to compute.
void resolve_request(AnalysisRequest& options, const Target& target) {
  inspect::InspectRequest& request = options.inspect;
  if (!request.from.empty() && !options.output.plot.empty())
    fail(Status::usage, "--plot draws a column of heads, --from its own picture; leave out one of them");
  const std::vector<std::string> columns_of_heads = inspect::sort_columns();
  if (!request.from.empty() && !request.sort.empty() && !request.sorts_answers() &&
      std::ranges::find(columns_of_heads, request.sort) == columns_of_heads.end())
    request.to.push_back(request.sort);
  request.form = target.format.form;
  request.format = target.format.name;
  if (!target.all_columns) request.columns = options.output.columns;
  if (const std::string plot = options.output.plot.substr(0, options.output.plot.find('='));
      !plot.empty() && !options.include_given) {
    // Computes only the table of this column.
    const std::string table = plot.substr(0, plot.find('.'));
    const std::vector<std::string> names = inspect::include_names(options.given);
    const bool ranks =
        options.given != inspect::Given::patterns && (!options.with_inputs() || plot.ends_with("_rank"));
    const bool named = table.size() < plot.size() && std::ranges::find(names, table) != names.end();
    options.include = named ? table : ranks ? "weights" : "metrics";
    options.include_given = true;
  }
  request.includes =
      inspect::resolve_includes(options.include, options.include_given, options.given, request.form);
  const bool read = request.form == inspect::Form::text || request.form == inspect::Form::pictures;
  if (read && !request.from.empty() && !options.include_given) {
    // Shows only the answer to --from and, with --sort COLUMN or --columns, the table of heads.
    request.includes.set("patterns", false);
    std::vector<std::string> columns = request.columns;
    if (!request.sort.empty() && !request.sorts_answers()) columns.push_back(request.sort);
    request.includes.set("metrics", !columns.empty());
    const auto is_rank = [](const std::string& name) { return name.ends_with("_rank"); };
    if (options.given == inspect::Given::inputs)
      request.includes.set("weights", std::ranges::any_of(columns, is_rank));
  }
  request.draw = !options.show.empty();
  request.draw_layers = request.draw && options.selection.heads.empty();
  request.limit = options.run.limit;
  request.memory = options.run.memory;
}

/// Determines the target and completes the request.
Target prepare(AnalysisRequest& options) {
  apply_show(options);
  if (!options.inspect.from.empty() && !options.include_given) options.output.single_table = "attention_from";
  std::vector<std::filesystem::path> files = files_read(options);
  if (options.given == inspect::Given::patterns) files.emplace_back(options.stored.file);
  if (options.stored.tokens) files.emplace_back(*options.stored.tokens);
  const Target target = resolve_target(options.output, files);
  resolve_request(options, target);
  return target;
}

/// The target of the results and, for a document, its schema and its first fields.
struct AnalysisOutput {
  const Target& target;
  std::string_view schema;
  Record head;
};

/// Computes and writes the results.
void write_analysis(AnalysisRequest& options, inspect::InspectSubject subject, AnalysisOutput output,
                    Session& session) {
  const inspect::InspectRequest& request = options.inspect;
  const Target& target = output.target;
  const bool words = std::ranges::any_of(subject.batch.sequences,
                                         [](const input::Sequence& each) { return !each.tokens.empty(); });
  inspect::Inspection inspection(request, std::move(subject), session.context());
  warn_unused_analysis_options(request, options.with_inputs(), session.warnings);
  if (request.form == inspect::Form::arrays) {
    warn_unused_options(target, options.output, session.warnings);
    if (!request.from.empty())
      session.warnings.add("unused_from", "--from: npz does not have the answer; use csv, json or text");
    write_npz(inspection, target, options.output.compress, session);
  } else {
    ResultWriter writer(target, options.output, session);
    Results results;
    results.document.head = std::move(output.head);
    results.append(inspection.run());
    if (request.form == inspect::Form::text && words && !options.include_given && request.from.empty()) {
      results.text.emplace_back(
          TextLine{"", "--from WORD shows what a word attends to, --show LAYER.HEAD a pattern"});
    }
    writer.write(output.schema, std::move(results));
  }
  print_warnings(session);
}

void run_analysis(AnalysisRequest options) {
  const Target target = prepare(options);
  inspect::InspectRequest& request = options.inspect;
  Session session(options.run);
  OpenModel open = open_model(options.model, session.warnings);
  inspect::InspectSubject subject{open.model, open.vocabulary};
  if (options.with_inputs()) subject.batch = read_inputs(options.inputs, open, session.warnings);
  const bool targets = !options.with_inputs() || subject.batch.sequences.front().target;
  request.selection = inspect::select_heads(options.selection, open.model.config(), targets);
  open.model = with_attention_option(open.model, options.selection);
  if (options.with_inputs()) {
    subject.grid = axial_grid(options.selection, options.inputs, open.model, subject.batch);
  }
  if (request.form == inspect::Form::page && options.with_inputs() && !options.include_given &&
      !request.by_word && inspect::fits_neuron_view(request.selection, open.model.config(), subject.batch)) {
    for (const char* const name : {"scores", "queries", "keys"}) request.includes.set(name, true);
  }
  Record head = Record().set("model", analysis::model_record(open.model));
  write_analysis(options, std::move(subject), {target, "attnctl.analysis/2", std::move(head)}, session);
}

void run_view(AnalysisRequest options) {
  const Target target = prepare(options);
  options.stored.model = options.model.model;
  Session session(options.run);
  const inspect::StoredPatterns patterns(options.stored, session.warnings);
  options.inspect.selection = patterns.stored(
      inspect::select_heads(options.selection, patterns.model().config()), !options.selection.heads.empty());
  inspect::InspectSubject subject{.model = patterns.model(),
                                  .vocabulary = patterns.vocabulary(),
                                  .batch = patterns.batch(),
                                  .stored = &patterns};
  Record head = Record().set("source", patterns.record());
  write_analysis(options, std::move(subject), {target, "attnctl.view/2", std::move(head)}, session);
}

void parse_output_ranks(const std::string& list, inspect::InspectRequest& request) {
  request.output_rank = list != "none";
  request.output_ranks.clear();
  if (!request.output_rank) return;
  for (const std::string_view word : split(list, ',')) {
    const auto rank = parse_number(word);
    if (!rank || *rank == 0)
      fail(Status::usage, "--output-rank: got \"{}\", need ranks from 1 such as 1,2,4, or none",
           escaped(list));
    request.output_ranks.push_back(*rank);
  }
}

/// Adds the options that choose tokens and the form of patterns.
void add_token_options(Command& command, AnalysisRequest& options) {
  inspect::InspectRequest& request = options.inspect;
  command.add(
      "Selection",
      {{"--per-input", &request.per_input, "Compute metrics for each input instead of over all inputs"},
       {"--from", &request.from,
        "Show which tokens this token attends to in each head: a word, word#2 (its second occurrence), or a "
        "position. Text and pictures show only this, unless --include is given",
        "TOKEN"},
       {.names = "--to",
        .target = &request.to,
        .help = "With --from: also show the weights on these tokens, such as cat,tired",
        .type = "TOKENS",
        .split = true},
       {"--show", &options.show,
        "Draw the pattern of a head (such as 3.1 or L3H1), or the mean pattern of a layer and then the "
        "patterns of its heads (such as 3)",
        "HEAD"},
       {"--by-word", &request.by_word, "Merge word pieces into words in all pattern output"},
       choice("--pool-from", request.pool_from, {"mean", "first"},
              "With --by-word: the attention from a word is the mean over its pieces, or that of its first "
              "piece (default: mean)")});
}

void add_rollout_options(Command& command, inspect::InspectRequest& request, const std::string& group) {
  command.add(group,
              {choice("--rollout-fusion", request.rollout.fusion, {"mean", "max", "min"},
                      "How rollout and flow combine the heads of a layer (default: mean)"),
               number("--rollout-residual", &request.rollout.residual,
                      "Weight of the residual connection in rollout and flow", Range{0.0, 1.0}),
               {"--rollout-from", &request.rollout_from,
                "Compute rollout and flow only for this token of the last layer: a word, word#2 (its second "
                "occurrence), or a position",
                "TOKEN"}});
}

void add_pattern_options(Command& command, AnalysisRequest& options) {
  inspect::InspectRequest& request = options.inspect;
  const std::string group = "Values of patterns, rollout, flow, contributions and sinks";
  add_token_options(command, options);
  command.add(group, {choice("--weighting", request.weighting, {"weights", "norm", "norm-row"},
                             "Values of patterns: weights, norm (weight times the length of the value vector "
                             "after W_O) or norm-row (norm, with rows that sum to 1) (default: weights)")});
  add_rollout_options(command, request, group);
  command.add(
      group,
      {{"--output-rank", [&request](const std::string& list) { parse_output_ranks(list, request); },
        "For contributions: ranks to which W_O is reduced, or none (default: 1,2,4,...)", "RANKS|none"},
       number("--sink-epsilon", &request.sink_epsilon,
              "For sinks: a head is a sink at a key if the mean weight on this key is above this number",
              Range{0.0, 1.0}),
       number("--idle-ratio", &request.idle_ratio,
              "For sinks: a head is idle if the length of what it writes is on average below this "
              "share of the length of the residual stream",
              non_negative())});
}

/// Adds the options that select heads, and --include.
void add_include_options(Command& command, AnalysisRequest& request, const std::string& default_include) {
  const std::vector<std::string> names = inspect::include_names(request.given);
  request.include = default_include;
  add_head_options(command, request.selection);
  command.add("Selection", {{.names = "--include",
                             .target = &request.include,
                             .help = fmt::format("Results to compute, of: {}", fmt::join(names, ", ")),
                             .type = "LIST",
                             .show_default = true,
                             .offered = names,
                             .given = &request.include_given}});
}

void add_selection_options(Command& command, AnalysisRequest& request, const std::string& default_include) {
  inspect::InspectRequest& options = request.inspect;
  add_include_options(command, request, default_include);
  command.add(
      "Selection",
      {number("--directions", &options.weights.directions,
              "Number of principal directions per circuit (QK, OV) of a head", positive()),
       {"--across-layers", &options.weights.across_layers,
        "Compare the heads of all selected layers with each other, not only the heads of one layer"},
       {"--fold-norm", &options.weights.fold_norm,
        "Multiply W_Q, W_K and W_V by the gain of the norm before them"},
       choice("--order", options.order, {"model", "cluster"},
              "Order of heads in heatmaps of similarity: model (by number) or cluster (similar heads are "
              "adjacent, with a dendrogram) (default: model)"),
       {.names = "--similarity",
        .target = &options.similarity,
        .help = "With --include map: similarities of heads to use, of: qk, ov, w_q, w_k, w_v, w_o",
        .type = "LIST",
        .show_default = true,
        .offered = {"qk", "ov", "w_q", "w_k", "w_v", "w_o"}}});
}

/// Returns the tables that the command can write, separated by commas.
std::string table_names(inspect::Given given) {
  if (given == inspect::Given::patterns)
    return "heads,patterns,attention_from,rollout,rollout_last_layer,flow,inputs";
  const std::string of_weights =
      "heads,subspace_similarity,singular_values,principal_directions,circuits,subspaces,projection_kernel,"
      "principal_cosines,composition,map,linkage";
  if (given == inspect::Given::weights) return of_weights;
  return of_weights +
         ",patterns,attention_from,scores,queries,keys,values,z,output,logits,predictions,rollout,"
         "rollout_last_layer,flow,contributions,output_rank,mixing,routing,largest_value,sinks,sink_rates,"
         "activations,inputs,texts";
}

void add_result_options(Command& command, AnalysisRequest& request) {
  request.output.names_columns = true;
  add_document_options(command, request.output, all_formats());
  std::string by_word, of_answers, of_pairs;
  if (request.with_inputs()) {
    by_word = ", or the heads of --from by their weights on this word";
    of_answers =
        "; with --from: of keys per head (default: 5; json, csv: all) and, with --sort WORD, of heads";
  }
  if (request.given == inspect::Given::inputs) of_answers += "; with logits: of tokens (default: 5)";
  if (request.given != inspect::Given::patterns)
    of_pairs = ", and of pairs of heads per circuit and per kind of composition (default: 5)";
  add_table_option(command, request.output, table_names(request.given));
  add_plot_option(command, request.output);
  command.add(
      "Output",
      {{"--compress", &request.output.compress, "With npz: compress the arrays"},
       {.names = "--sort",
        .target = &request.inspect.sort,
        .help = "With text: sort the table of heads by this column, which is then shown first" + by_word +
                ", largest value first",
        .type = request.with_inputs() ? "COLUMN|WORD" : "COLUMN",
        .offered = texts_of(analysis::metric_definitions(), &Definition::name)},
       {"--top", [&options = request.inspect](const std::string& word) { options.top = parse_top(word); },
        "With text: largest number of heads (default: 20)" + of_pairs + ", or all" + of_answers,
        "NUMBER|all"}});
  if (request.with_inputs()) command.add("Output", {strip_markers_option(request.inspect.strip_markers)});
  add_run_options(command, request.run);
  const bool adapts = request.given != inspect::Given::patterns;
  command.add("Run", {memory_option(request.run, adapts ? kMemoryHelp : kMemoryEstimateHelp),
                      number("--limit", &request.run.limit,
                             "Largest number of values (numbers, texts, nulls) in the output, counted as in "
                             "JSON (npz: no limit)")});
}

}  // namespace

Command analyze_command() {
  Command command{.name = "analyze",
                  .about = "Compute attention patterns, metrics of each head, and analyses of the weights"};
  auto request = std::make_shared<AnalysisRequest>();
  add_model_options(command, request->model);
  add_input_options(command, request->inputs);
  add_selection_options(command, *request, "metrics,patterns,weights");
  add_attention_option(command, request->selection);
  add_pattern_options(command, *request);
  add_result_options(command, *request);
  command.footer =
      "Examples:\n"
      "  attnctl analyze data/tiny-bert \"The cat sat because it was tired.\" --from it --to cat,tired\n"
      "  attnctl analyze data/tiny-bert --text \"The cat didn't sit down.\" --by-word --show 0.3\n"
      "  attnctl analyze data/tiny-bert \"The mechanic fixed it.\" --show 0.3 --strip-markers\n"
      "  attnctl analyze data/attention-demo.json --input data/sentences.jsonl --from it --to animal,tired\n"
      "  attnctl analyze data/tiny-bert --text \"The cat sat because it was tired.\" --include rollout,flow "
      "--rollout-from it\n"
      "  attnctl analyze data/tiny-llama --ids 5,6,7,8 | jq '.heads[0]'\n"
      "  printf 'One line.\\nAnother.\\n' | attnctl analyze data/tiny-llama --input -\n"
      "  attnctl analyze data/tiny-bert --input data/tiny-bert/sentences.jsonl --include metrics --format "
      "text --sort next_token --top 3\n"
      "  attnctl analyze data/tiny-llama --ids 5,6,7,8 --layers 0,2-3 -o patterns.npz\n"
      "  attnctl analyze data/dna-attention.json --embeddings data/dna-grid.npy --attention axial\n"
      "  attnctl analyze data/tiny-bert \"A cat.\" --show 0.3 --title Head --colormap viridis -o x.svg\n"
      "  attnctl analyze data/tiny-llama --ids 5,6,7,8 --format csv -o tables";
  command.action = [request] { run_analysis(*request); };
  return command;
}

Command weights_command() {
  Command command{.name = "weights",
                  .about = "Analyze only the weights: similarity of heads, ranks, principal directions"};
  auto request = std::make_shared<AnalysisRequest>();
  request->given = inspect::Given::weights;
  add_model_options(command, request->model);
  add_selection_options(command, *request, "weights,directions");
  add_result_options(command, *request);
  command.footer =
      "Examples:\n"
      "  attnctl weights data/tiny-llama --format text\n"
      "  attnctl weights data/tiny-llama --layers 2 -o similarity.png\n"
      "  attnctl weights data/tiny-llama --include subspaces,composition --format text\n"
      "  attnctl weights data/tiny-bert --across-layers --order cluster -o heads.pdf\n"
      "  attnctl weights data/tiny-bert --across-layers --include weights | jq "
      "'.subspace_similarity[0].names'";
  command.action = [request] { run_analysis(*request); };
  return command;
}

Command view_command() {
  Command command{
      .name = "view",
      .about = "Show attention patterns that another program computed, with metrics of each head"};
  auto request = std::make_shared<AnalysisRequest>();
  request->given = inspect::Given::patterns;
  inspect::StoredRequest& stored = request->stored;
  command.add(
      {{.names = "FILE",
        .target = &stored.file,
        .help = "File of patterns: .npz, .npy, .safetensors or .pt. By default, one array per layer, "
                "such as layer_0, attentions_0, blocks.0.attn.hook_pattern or arr_0, of shape [batch, "
                "heads, queries, keys], [heads, queries, keys] or [queries, keys]; or one array with "
                "the layers as its first axis",
        .required = true},
       {"--array", &stored.array,
        "Name of the array of patterns, or of one array per layer, with # for the number of the layer",
        "NAME"},
       {"--softmax", &stored.softmax, "The arrays are scores: apply the softmax to each row"},
       {"--tokens", &stored.tokens,
        "File with the tokens of the queries: .json (an array of strings, or one such array per "
        "input), else one token per line (default: the array tokens of FILE, or positions)",
        "FILE"},
       {"--model", &request->model.model,
        "Model whose vocabulary names the token ids in FILE (arrays ids_0 or input_ids) and says which "
        "tokens are special",
        "MODEL"}});
  add_include_options(command, *request, "metrics,patterns");
  add_token_options(command, *request);
  add_rollout_options(command, request->inspect, "Rollout and flow");
  add_result_options(command, *request);
  command.footer =
      "Examples:\n"
      "  attnctl view data/patterns.npz\n"
      "  attnctl view data/patterns.npz --from it --to cat,tired\n"
      "  attnctl view data/patterns.npz --show 1.0\n"
      "  attnctl view data/patterns.npz -o patterns.html\n"
      "  attnctl view data/patterns.npz --plot previous_token -o previous.svg\n"
      "  attnctl analyze data/tiny-bert \"The cat sat.\" -o own.npz && attnctl view own.npz --model "
      "data/tiny-bert";
  command.action = [request] { run_view(*request); };
  return command;
}

}  // namespace attnctl::cli
