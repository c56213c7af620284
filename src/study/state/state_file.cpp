#include <algorithm>
#include <ranges>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/files/mapped_file.hpp"
#include "base/files/output_file.hpp"
#include "base/text.hpp"
#include "study/state/study_state.hpp"

// The file format of a study state: see docs/study.md.
namespace attnctl {
namespace {

constexpr std::string_view kMagic = "attnctl study\n";
constexpr std::uint64_t kVersion = 2;
constexpr std::size_t kLargest = std::size_t{1} << 31;
constexpr std::uint64_t kMostNulls = 1000;

void save_header(StateWriter& out, const StudyHeader& header) {
  out.number(header.identity.size());
  for (const auto& [name, value] : header.identity) {
    out.text(name);
    out.text(value);
  }
  out.number(header.shape.seed);
  out.flag(header.shape.fold_subtypes);
  out.number(header.shape.heads.size());
  for (const StudyHead& head : header.shape.heads) {
    for (const std::size_t number : {head.id.layer, head.id.head, head.layer, head.kv_head})
      out.number(number);
    out.text(head.name);
    out.value(head.component);
  }
  out.number(header.measures.size());
  for (const MeasureRow* const row : header.measures) {
    out.text(row->name);
    out.number(row->version);
  }
  out.number(header.null_models);
  out.number(header.null_shuffles);
  out.value(header.model);
  out.text(header.model_path);
  out.number(header.files.size());
  for (const std::string& file : header.files) out.text(file);
}

const MeasureRow* load_measure(StateReader& in) {
  const std::string name = in.text();
  const std::uint64_t version = in.number();
  const auto rows = measure_catalogue();
  const auto row = std::ranges::find(rows, name, &MeasureRow::name);
  if (row == rows.end() || row->version != version) {
    fail(Status::bad_input,
         "{}: unsupported measure {} of version {}; write the state anew with this attnctl", in.name(),
         in_quotes(name), version);
  }
  return &*row;
}

StudyHeader load_header(StateReader& in) {
  StudyHeader header;
  for (std::size_t left = in.count(); left > 0; --left) {
    std::string name = in.text();
    header.identity.emplace_back(std::move(name), in.text());
  }
  header.shape.seed = in.number();
  header.shape.fold_subtypes = in.flag();
  for (std::size_t left = in.count(); left > 0; --left) {
    StudyHead& head = header.shape.heads.emplace_back();
    for (std::size_t* const number : {&head.id.layer, &head.id.head, &head.layer, &head.kv_head})
      *number = in.number();
    head.name = in.text();
    const Value component = in.value();
    if (!std::holds_alternative<Cell>(component.data)) in.damaged("a component that is no name");
    head.component = std::get<Cell>(component.data);
  }
  if (header.shape.heads.empty()) in.damaged("it has no heads");
  for (std::size_t left = in.count(); left > 0; --left) header.measures.push_back(load_measure(in));
  for (std::size_t* const nulls : {&header.null_models, &header.null_shuffles}) {
    *nulls = in.number();
    if (*nulls > kMostNulls) in.damaged("more random models or shuffles than there can be");
  }
  header.model = in.value();
  header.model_path = in.text();
  for (std::size_t left = in.count(); left > 0; --left) header.files.push_back(in.text());
  return header;
}

void save_counts(StateWriter& out, const CorpusCounts& counts) {
  for (const std::uint64_t count : {counts.sentences, counts.words, counts.tokens, counts.skipped})
    out.number(count);
}

/// Writes runs of consecutive blocks: the gap before each run and its length.
void save_blocks(StateWriter& out, const std::set<std::uint64_t>& blocks) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs;  // first block, and the one after the last
  for (const std::uint64_t block : blocks) {
    if (runs.empty() || runs.back().second != block) runs.emplace_back(block, block);
    runs.back().second = block + 1;
  }
  out.number(runs.size());
  std::uint64_t end = 0;
  for (const auto& [first, last] : runs) {
    out.number(first - end);
    out.number(last - first);
    end = last;
  }
}

std::set<std::uint64_t> load_blocks(StateReader& in) {
  constexpr std::uint64_t most = 100'000'000;
  std::set<std::uint64_t> blocks;
  std::uint64_t end = 0;
  for (std::size_t left = in.count(); left > 0; --left) {
    const std::uint64_t gap = in.number();
    const std::uint64_t length = in.number();
    if (gap > most || length > most || end + gap + length > most) in.damaged("more blocks than there can be");
    for (std::uint64_t block = end + gap; block < end + gap + length; ++block)
      blocks.insert(blocks.end(), block);
    end += gap + length;
  }
  return blocks;
}

}  // namespace

void StudyState::save(StateWriter& out) const {
  save_header(out, *header_);
  save_blocks(out, done_);
  out.flag(blocks_.has_value());
  out.number(blocks_.value_or(0));
  out.number(tokens_hash_);
  save_counts(out, counts_);
  out.number(skipped_.size());
  for (const auto& [key, message] : skipped_) {
    out.number(key.first);
    out.number(key.second);
    out.text(message);
  }
  out.number(warnings_.size());
  for (const auto& [code, told] : warnings_) {
    out.text(code);
    out.number(told.block);
    out.text(told.message);
    out.number(told.count);
  }
  out.number(kernels_.size());
  for (const std::string& kernel : kernels_) out.text(kernel);
  for (const auto& measure : measures_) measure->save(out);
  for (const auto& measure : shuffled_) measure->save(out);
  for (const auto& measures : nulls_) {
    for (const auto& measure : measures) measure->save(out);
  }
}

void StudyState::load(StateReader& in) {
  done_ = load_blocks(in);
  const bool known = in.flag();
  const std::uint64_t blocks = in.number();
  if (known) blocks_ = blocks;
  if (known && !done_.empty() && *done_.rbegin() >= blocks) in.damaged("a block behind the corpus' end");
  tokens_hash_ = in.number();
  for (std::uint64_t* const count : {&counts_.sentences, &counts_.words, &counts_.tokens, &counts_.skipped})
    *count = in.number();
  for (std::size_t left = in.count(); left > 0; --left) {
    const std::uint64_t block = in.number();
    const std::uint64_t place = in.number();
    skipped_.emplace(SkippedKey{block, place}, in.text());
  }
  for (std::size_t left = in.count(); left > 0; --left) {
    std::string code = in.text();
    const std::uint64_t block = in.number();
    std::string message = in.text();
    warnings_[std::move(code)] = {block, std::move(message), in.number()};
  }
  for (std::size_t left = in.count(); left > 0; --left) kernels_.insert(in.text());
  for (const auto& measure : measures_) measure->load(in);
  for (const auto& measure : shuffled_) measure->load(in);
  for (const auto& measures : nulls_) {
    for (const auto& measure : measures) measure->load(in);
  }
  if (!in.at_end()) in.damaged("something follows its end");
}

void StudyState::write(const std::filesystem::path& path) const {
  OutputFile out(path);
  write(out);
}

void StudyState::write(OutputFile& out) const {
  StateWriter content;
  save(content);
  StateWriter head;
  head.number(kVersion);
  head.number(content.bytes().size());
  StateWriter tail;
  tail.number(content_hash(content.bytes()));
  out.write(kMagic);
  out.write(head.bytes());
  out.write(content.bytes());
  out.write(tail.bytes());
  out.commit();
}

StudyState StudyState::read(const std::filesystem::path& path) {
  const std::string file = read_file(path, kLargest);
  const std::string name = escaped(path.string());
  if (!file.starts_with(kMagic)) fail(Status::bad_input, "{}: is no state of a study", name);
  StateReader outer(std::string_view(file).substr(kMagic.size()), name);
  const std::uint64_t version = outer.number();
  if (version != kVersion) {
    fail(Status::bad_input, "{}: unsupported version {} of a study's state, need {}; write it anew", name,
         version, kVersion);
  }
  const std::string content = outer.text();
  outer.expect(content_hash(content), "checksum");
  if (!outer.at_end()) outer.damaged("something follows its end");
  StateReader in(content, name);
  StudyState state(load_header(in));
  state.load(in);
  return state;
}

}  // namespace attnctl
