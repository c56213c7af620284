#include "study/state/study_state.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"

namespace attnctl::study {
namespace {

constexpr std::string_view kMagic = "attnctl study\n";
constexpr std::uint64_t kVersion = 3;
constexpr std::size_t kMaxFileSize = std::size_t{1} << 31;
constexpr std::uint64_t kMaxNulls = 1000;
constexpr std::uint64_t kMaxBlocks = 100'000'000;

void save_header(StateWriter& out, const StudyHeader& header) {
  save_list(out, header.identity);
  out.number(header.shape.seed);
  out.flag(header.shape.fold_subtypes);
  save_list(out, header.shape.heads);
  out.number(header.measures.size());
  for (const MeasureRow* const row : header.measures) {
    out.text(row->name);
    out.number(row->version);
  }
  out.number(header.null_models);
  out.number(header.null_shuffles);
  out.value(header.model);
  out.text(header.model_path);
  save_list(out, header.files);
}

/// Reads the record of the model. Each value is a cell, except the lists of components and of kinds of
/// attention.
Value load_model(StateReader& in) {
  Value model = in.value();
  const auto* const record = std::get_if<std::shared_ptr<const Record>>(&model.data);
  const auto fits = [](const auto& field) {
    return std::holds_alternative<Cell>(field.second.data) || field.first == "components" ||
           field.first == "attention";
  };
  const auto is_path = [](const auto& field) { return field.first == "path"; };
  if (record == nullptr || !std::ranges::all_of((*record)->fields, fits) ||
      !std::ranges::any_of((*record)->fields, is_path))
    in.damaged("the record of the model is not valid");
  return model;
}

StudyHeader load_header(StateReader& in) {
  StudyHeader header;
  load_list(in, header.identity);
  header.shape.seed = in.number();
  header.shape.fold_subtypes = in.flag();
  load_list(in, header.shape.heads);
  if (header.shape.heads.empty()) in.damaged("the list of heads is empty");
  for (std::size_t left = in.count(); left > 0; --left) {
    const std::string name = in.text();
    const std::uint64_t version = in.number();
    const auto rows = measure_catalogue();
    const auto row = std::ranges::find(rows, name, &MeasureRow::name);
    if (row == rows.end() || row->version != version) {
      fail(Status::bad_input,
           "{}: unsupported measure {} version {}; run the study again with this version of attnctl",
           in.name(), in_quotes(name), version);
    }
    header.measures.push_back(&*row);
  }
  for (std::size_t* const nulls : {&header.null_models, &header.null_shuffles}) {
    *nulls = in.number();
    if (*nulls > kMaxNulls) in.damaged("there are too many random models or shuffles");
  }
  header.model = load_model(in);
  header.model_path = in.text();
  load_list(in, header.files);
  return header;
}

/// Writes the block numbers as runs of consecutive numbers: the gap before each run and its length.
void save_blocks(StateWriter& out, const BlockSet& blocks) {
  out.number(blocks.runs().size());
  std::uint64_t end = 0;
  for (const auto& [first, last] : blocks.runs()) {
    out.number(first - end);
    out.number(last - first);
    end = last;
  }
}

BlockSet load_blocks(StateReader& in) {
  BlockSet blocks;
  std::uint64_t end = 0;
  for (std::size_t left = in.count(); left > 0; --left) {
    const std::uint64_t gap = in.number();
    const std::uint64_t length = in.number();
    if (gap > kMaxBlocks || length > kMaxBlocks || end + gap + length > kMaxBlocks)
      in.damaged("there are too many blocks");
    if (length == 0) in.damaged("a run of blocks is empty");
    blocks.insert(end + gap, end + gap + length);
    end += gap + length;
  }
  return blocks;
}

StudyResults finish_all(const Measures& measures, Pool& pool, const StudyThresholds& thresholds) {
  std::vector<StudyResults> parts(measures.size());
  pool.run(parts.size(), [&](std::size_t i, std::size_t /*worker*/) {
    parts[i].thresholds = thresholds;
    if (measures[i]->has_data()) measures[i]->finish(parts[i]);
  });
  StudyResults results;
  for (StudyResults& part : parts) results.append(std::move(part));
  return results;
}

Table strongest_table(const StudyResults& results, const StudyShape& shape) {
  std::vector<std::vector<Cell>> rows;
  for (const StrongHead& each : results.strongest) {
    rows.push_back(row_of(each.what, shape.head_cells(each.head), each.value, each.null, each.rows));
  }
  return with_definitions(make_table(
      "strongest", {"what", "component", "layer", "head", "name", "value", "null", "rows"}, std::move(rows)));
}

/// The heads whose mean weight on position 0 is above a threshold.
struct StudySinks {
  double epsilon = 0;
  std::size_t heads = 0;           // number of heads with such a mean
  std::vector<std::string> names;  // of the sinks

  StudySinks(const StudyResults& results, const StudyShape& shape, double threshold) : epsilon(threshold) {
    for (std::size_t h = 0; h < results.first_weights.size(); ++h) {
      const std::optional<double>& weight = results.first_weights[h];
      if (!weight || !std::isfinite(*weight)) continue;
      ++heads;
      if (*weight > epsilon) names.push_back(shape.heads[h].name);
    }
  }
  [[nodiscard]] double rate() const { return static_cast<double>(names.size()) / static_cast<double>(heads); }
  [[nodiscard]] Record record() const {
    return Record().set("epsilon", epsilon).set("heads", heads).set("rate", rate()).set("names", names);
  }
  [[nodiscard]] TextLine line() const {
    return {"Sink rate",
            fmt::format(": {:.3f}: {} of {} have a mean weight above {} on position 0{}{}", rate(),
                        names.size(), counted(heads, "head"), epsilon, names.empty() ? "" : ": ",
                        shown(fmt::format("{}", fmt::join(names, ", "))))};
  }
};

/// Returns the table with the path of the model as its first column.
Table with_model_path(Table table, const std::string& path) {
  table.columns.insert(table.columns.begin(), "model");
  table.row = [path, row = std::move(table.row)](std::size_t index, std::span<Cell> cells) {
    cells[0] = path;
    row(index, cells.subspan(1));
  };
  return table;
}

/// Returns the first COLUMN of the table `heads`, or TABLE.COLUMN of another table of heads, that has real
/// numbers; empty if there is none.
std::string first_column_of_heads(const std::vector<Table>& tables) {
  for (const Table& table : tables) {
    std::vector<Cell> cells(table.columns.size());
    for (std::size_t row = 0; row < table.rows && table.find("head"); ++row) {
      table.row(row, cells);
      const auto real = std::ranges::find_if(cells, [](const Cell& cell) {
        return std::holds_alternative<float>(cell) || std::holds_alternative<double>(cell);
      });
      if (real == cells.end()) continue;
      const std::string& column = table.columns[static_cast<std::size_t>(real - cells.begin())].name;
      return table.name == "heads" ? column : table.name + "." + column;
    }
  }
  return {};
}

/// Returns the items of a list, without a version "/1", that `other` does not have: "metrics, roles".
std::string items_only_in(const std::string& list, const std::string& other) {
  const std::vector<std::string_view> known = split(other, ',');
  std::vector<std::string_view> items = split(list, ',');
  std::erase_if(items, [&](std::string_view item) { return std::ranges::count(known, item) > 0; });
  return join_texts(items, [](std::string_view item) { return item.substr(0, item.find('/')); });
}

}  // namespace

void require_same_study(const StudyHeader& header, const std::string& name, const StudyHeader& wanted,
                        const std::string& wanted_name, bool any_model) {
  StudyIdentity settings = wanted.identity;
  settings.insert(settings.end(), header.identity.begin(), header.identity.end());
  // By default, the measures depend on the corpus, and the frequencies on the measures.
  std::stable_partition(settings.begin(), settings.end(), [](const auto& setting) {
    return setting.first != "measures" && setting.first != "frequencies";
  });
  for (const auto& setting : settings) {
    const std::string& key = setting.first;
    const auto value_of = [&key](const StudyHeader& of) {
      const auto found = std::ranges::find(of.identity, key, &StudyIdentity::value_type::first);
      return found == of.identity.end() ? std::string() : found->second;
    };
    if (value_of(header) == value_of(wanted)) continue;
    const bool corpus = key == "corpus", model = key == "config" || key == "weights";
    if (any_model && (model || key == "heads")) continue;
    std::string what = model ? "model" : corpus || key == "state" ? key : "--" + shown(key);
    std::ranges::replace(what, '_', '-');
    const char* const problem = any_model ? "cannot be compared" : "belongs to another study";
    const std::string use = any_model ? "corpus and options" : "model, corpus and options";
    if ((key == "measures" || key == "heads") && !value_of(header).empty() && !value_of(wanted).empty()) {
      std::vector<std::string> parts;
      const std::string more = items_only_in(value_of(header), value_of(wanted));
      const std::string less = items_only_in(value_of(wanted), value_of(header));
      if (!more.empty()) parts.push_back(fmt::format("{} has no {}", wanted_name, shown(more)));
      if (!less.empty()) parts.push_back(fmt::format("only {} has {}", wanted_name, shown(less)));
      fail(Status::bad_input, "{}: {}: {}: {}; use the same {}", name, problem, what,
           fmt::join(parts, ", and "), use);
    }
    const auto described = [&](const StudyHeader& of) {
      const std::string value = value_of(of);
      if (value.empty()) return std::string("no value");
      if (model) return fmt::format("{} ({} {})", in_quotes(of.model_path), key, shown(value));
      if (!corpus) return in_quotes(value);
      return fmt::format("{} ({})", in_quotes(fmt::format("{}", fmt::join(of.files, ", "))), shown(value));
    };
    fail(Status::bad_input, "{}: {}: {}: got {}, need {} as in {}; use the same {}", name, problem, what,
         described(header), described(wanted), wanted_name, use);
  }
}

void StudyState::add(const CorpusBlock& block, const StudyMeasures& measures,
                     const std::vector<Warning>& warnings, const std::string& kernel) {
  if (done_.insert(block.number, block.number + 1))
    throw std::logic_error("a block of a study was added twice");
  measures_.merge(measures);
  merge_state(counts_, block.counts);
  for (std::size_t i = 0; i < block.skipped.size(); ++i)
    skipped_.emplace(std::pair(block.number, i), block.skipped[i]);
  trim_skipped();
  for (const Warning& warning : warnings)
    warnings_[warning.code].merge({block.number, warning.message, warning.count});
  kernels_.insert(kernel);
}

void StudyState::merge(const StudyState& other, const std::string& name, const std::string& other_name) {
  require_same_study(other.header(), other_name, header(), name);
  if (blocks_ && other.blocks_ &&
      std::tie(*blocks_, tokens_hash_) != std::tie(*other.blocks_, other.tokens_hash_)) {
    fail(
        Status::bad_input,
        "{}: belongs to another study: the corpus has other blocks or tokens than in {}; use the same corpus "
        "and tokenizer",
        other_name, name);
  }
  // Takes the paths from the state with the lowest block, so that the order of merging does not matter.
  const auto rank = [](const StudyState& state) {
    const std::uint64_t lowest =
        state.done_.empty() ? std::numeric_limits<std::uint64_t>::max() : state.done_.runs().begin()->first;
    return std::tuple(lowest, state.header().model_path, state.header().files);
  };
  if (rank(other) < rank(*this)) {
    header_->model_path = other.header().model_path;
    header_->files = other.header().files;
  }
  for (const auto& [first, last] : other.done_.runs()) {
    if (const auto block = done_.insert(first, last))
      fail(Status::bad_input,
           "{}: block {} is also in an earlier state file; merge only states of different blocks", other_name,
           *block);
  }
  if (other.blocks_) end_corpus(*other.blocks_, other.tokens_hash_);
  try {
    measures_.merge(other.measures_);
  } catch (const std::overflow_error&) {
    fail(Status::bad_input,
         "{}: the study state is damaged: its sums are too large to add to those of {}; "
         "run the study again",
         other_name, name);
  }
  merge_state(counts_, other.counts_);
  skipped_.insert(other.skipped_.begin(), other.skipped_.end());
  trim_skipped();
  for (const auto& [code, warning] : other.warnings_) warnings_[code].merge(warning);
  kernels_.insert(other.kernels_.begin(), other.kernels_.end());
}

std::vector<Warning> StudyState::warnings() const {
  std::vector<Warning> list;
  for (const auto& [code, warning] : warnings_) list.push_back({code, warning.message, warning.count});
  const auto is_even = [](const auto& measure) { return measure->all_in_even_blocks(); };
  if (complete() && std::ranges::any_of(measures_.own, is_even)) {
    const auto given =
        std::ranges::find(header_->identity, "batch_tokens", &StudyIdentity::value_type::first);
    const auto block = given == header_->identity.end() ? std::nullopt : parse_number(given->second);
    const std::uint64_t smaller = std::min(block.value_or(counts_.tokens), counts_.tokens) / 4;
    list.push_back(
        {"no_held_out",
         fmt::format("the corpus has no held-out half, so the best heads are not scored: odd blocks "
                     "have no annotation; give {}",
                     counts_.sentences < 2 || smaller == 0
                         ? "more sentences"
                         : fmt::format("a smaller --batch-tokens, such as {}", smaller)),
         1});
  }
  if (!skipped_.empty())
    list.push_back(
        {"skipped",
         fmt::format("skipped {} of {} (--skip-bad); first: {}", counts_.skipped,
                     counted(counts_.sentences + counts_.skipped, "sentence"), skipped_.begin()->second),
         1});
  if (!complete())
    list.push_back(
        {"partial", done_text() + (blocks_ ? "" : ", perhaps not all: no run has read the whole corpus"), 1});
  if (kernels_.size() > 1)
    list.push_back({"unlike_kernels",
                    fmt::format("the blocks were computed with {} different kernels, which round "
                                "differently: {}",
                                kernels_.size(), kernel_names(*this)),
                    1});
  return list;
}

StudyResults StudyState::finish(Pool& pool, const StudyThresholds& thresholds) const {
  const std::vector<const MeasureRow*> twins = header_->shuffled_measures();
  for (std::size_t i = 0; i < measures_.own.size(); ++i) {
    const auto twin = std::ranges::find(twins, header_->measures[i]);
    const auto index = static_cast<std::size_t>(twin - twins.begin());
    measures_.own[i]->compare_with(twin == twins.end() ? nullptr : measures_.shuffled[index].get());
  }
  StudyResults results = finish_all(measures_.own, pool, thresholds);
  std::vector<RoleEvidence> of_random;
  for (const Measures& measures : measures_.nulls)
    std::ranges::move(finish_all(measures, pool, thresholds).evidence, std::back_inserter(of_random));
  set_random(results.evidence, of_random);
  if (std::ranges::find(header_->measures, "roles", &MeasureRow::name) != header_->measures.end())
    add_roles(results, header_->shape);
  return results;
}

void StudyState::check_data(bool named, Warnings& warnings) const {
  std::vector<std::string_view> names, needs;
  bool removes_heads = false;
  for (std::size_t i = 0; i < measures_.own.size(); ++i) {
    if (measures_.own[i]->has_data()) continue;
    names.push_back(header_->measures[i]->name);
    needs.push_back(header_->measures[i]->annotation);
    removes_heads |= header_->measures[i]->on_request;
  }
  if (names.empty()) return;
  const std::string what = fmt::format(
      "{}: {} {} no {}", fmt::join(names, ", "), shown(fmt::format("{}", fmt::join(header_->files, ", "))),
      header_->files.size() == 1 ? "has" : "have", fmt::join(needs, " and no "));
  if (named && removes_heads) fail(Status::bad_input, "{}; give another corpus", what);  // attnctl ablate
  if (named) fail(Status::bad_input, "--measures {}; give another corpus, or other measures", what);
  warnings.add("measure_left_out", "left out " + what);
}

void StudyState::save(StateWriter& out) const {
  save_header(out, *header_);
  save_blocks(out, done_);
  out.flag(blocks_.has_value());
  out.number(blocks_.value_or(0));
  out.number(tokens_hash_);
  save_state(out, counts_);
  save_state(out, skipped_);
  save_state(out, warnings_);
  save_list(out, kernels_);
  for (const Measure* const measure : measures_.all()) measure->save(out);
}

StudyState::StudyState(StateReader& in)
    : header_(std::make_unique<StudyHeader>(load_header(in))), done_(load_blocks(in)) {
  const bool known = in.flag();
  const std::uint64_t blocks = in.number();
  if (known) blocks_ = blocks;
  if (known && (blocks > kMaxBlocks || (!done_.empty() && done_.runs().rbegin()->second > blocks)))
    in.damaged("the number of a block is too large");
  tokens_hash_ = in.number();
  load_state(in, counts_);
  load_state(in, skipped_);
  load_state(in, warnings_);
  for (std::size_t left = in.count(); left > 0; --left) kernels_.insert(in.text());
  measures_ = StudyMeasures(*header_, &in);
  if (!in.at_end()) in.damaged("there are bytes after the end");
}

void StudyState::write(OutputFile& out) const {
  StateWriter head, content, tail;
  save(content);
  head.number(kVersion);
  head.number(content.bytes().size());
  tail.number(content_hash(content.bytes()));
  out.write(kMagic);
  out.write(head.bytes());
  out.write(content.bytes());
  out.write(tail.bytes());
  out.prepare();
}

StudyState StudyState::read(const std::filesystem::path& path) {
  return parse(read_file(path, kMaxFileSize), escaped(path.string()));
}

bool StudyState::is_state(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::string begin(kMagic.size(), '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin == kMagic;
}

StudyState StudyState::parse(std::string_view file, const std::string& name) {
  if (!file.starts_with(kMagic))
    fail(Status::bad_input, "{}: is not a study state file; need a file of attnctl study --state", name);
  StateReader outer(file.substr(kMagic.size()), name);
  const std::uint64_t version = outer.number();
  if (version != kVersion) {
    fail(Status::bad_input, "{}: unsupported version {} of the state file, need {}; run the study again",
         name, version, kVersion);
  }
  const std::string content = outer.text();
  outer.expect(content_hash(content), "checksum");
  if (!outer.at_end()) outer.damaged("there are bytes after the end");
  StateReader in(content, name);
  return StudyState(in);
}

std::string kernel_names(const StudyState& state) {
  return fmt::format("{}", fmt::join(state.kernels(), "+"));
}

Results study_results(const StudyState& state, Pool& pool, const StudyThresholds& thresholds) {
  StudyResults found = state.finish(pool, thresholds);
  const StudyHeader& header = state.header();
  const CorpusCounts& counts = state.counts();
  Record model = *std::get<std::shared_ptr<const Record>>(header.model.data);
  for (auto& [name, value] : model.fields) {
    if (name == "path") value = header.model_path;
  }
  Record summary;
  summary.set("blocks", state.done().size()).set("of", state.blocks());
  const Table strongest = strongest_table(found, header.shape);
  summary.set("strongest", strongest);
  const StudySinks sinks(found, header.shape, thresholds.sink_epsilon);
  if (sinks.heads > 0) summary.set("sinks", sinks.record());
  for (const auto& [name, value] : found.summary.fields) summary.set(name, value);

  Results results;
  results.document.head.set("model", std::move(model))
      .set("corpus", Record{{{"files", header.files},
                             {"sentences", counts.sentences},
                             {"windows", counts.windows},
                             {"words", counts.words},
                             {"tokens", counts.tokens},
                             {"skipped", counts.skipped}}})
      .set("settings", Record{{header.identity.begin(), header.identity.end()}})
      .set("summary", std::move(summary));
  List metrics;
  for (const MeasureRow* const row : header.measures) {
    for (const Definition& metric : row->definitions) {
      if (metric.source.empty()) continue;  // a column
      metrics.emplace_back(Record{{{"name", std::string(metric.name)},
                                   {"measure", std::string(row->name)},
                                   {"unit", std::string(metric.unit)},
                                   {"range", std::string(metric.range)},
                                   {"null", text_cell(metric.null)},
                                   {"definition", std::string(metric.meaning)},
                                   {"source", std::string(metric.source)}}});
    }
  }
  results.document.sections.push_back({"metrics", "metric", std::move(metrics)});
  std::vector<Column> columns = {"component", "layer", "head", "name", "kv_head"};
  std::ranges::move(found.head_columns, std::back_inserter(columns));
  found.head_rows.resize(header.shape.heads.size());
  std::vector<std::vector<Cell>> heads;
  for (std::size_t h = 0; h < header.shape.heads.size(); ++h)
    heads.push_back(row_of(header.shape.head_cells(h), header.shape.heads[h].kv_head, found.head_rows[h]));
  add_table(results, "head", "heads", std::move(columns), std::move(heads));
  results.text.emplace_back(
      TextLine{header.model_path,
               fmt::format(": {} over {}", counted(header.shape.heads.size(), "head"), counts.text())});
  if (!header.shuffled_measures().empty()) {
    results.text.emplace_back(TextLine{
        fmt::format("--null-shuffle {}", header.null_shuffles),
        ": in JSON and CSV, the columns shuffled and shuffled_held_out have the results for shuffled "
        "tokens; so does the table of roles, where the rule uses them"});
  }
  results.subtitle = {header.model_path,
                      "Corpus: " + shown(fmt::format("{}", fmt::join(header.files, ", ")))};
  List warnings;
  for (const Warning& warning : state.warnings()) {
    warnings.emplace_back(warning_record(warning));
    const std::string count = warning.count > 1 ? fmt::format(" ({} times)", warning.count) : "";
    results.text.emplace_back(TextLine{"Warning", fmt::format(": {}{}", warning.message, count)});
  }
  if (!found.strongest.empty()) {
    Table table = select_columns(strongest, {"what", "name", "value", "null", "rows"});
    table.columns[1].name = "head";
    found.text.emplace_back(
        TextTable{"Strongest heads in the corpus (null: the value of uniform attention)", std::move(table)});
  }
  if (sinks.heads > 0) found.text.emplace_back(sinks.line());
  results.append(std::move(found));
  if (const std::string column = first_column_of_heads(results.tables); !column.empty())
    results.picture_hint = fmt::format("add the measure roles, or give --plot {} or another column", column);
  for (View& view : results.pictures)
    std::visit([&](auto& page) { page.subtitle = results.subtitle; }, view.page);
  for (Table& table : results.tables)
    table = with_definitions(with_model_path(std::move(table), header.model_path));
  List skipped;
  for (const auto& [key, message] : state.skipped())
    skipped.emplace_back(Record{{{"block", key.first}, {"message", message}}});
  results.document.sections.push_back({"skipped", "skipped", std::move(skipped)});
  results.document.sections.push_back({"warnings", "warning", std::move(warnings)});
  return results;
}

}  // namespace attnctl::study
