#include "study/state/study_state.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "base/error.hpp"
#include "base/text.hpp"
#include "study/roles.hpp"

namespace attnctl {
namespace {

using Measures = std::vector<std::unique_ptr<Measure>>;

Measures make_all(const std::vector<const MeasureRow*>& rows, const StudyShape& shape) {
  Measures measures;
  for (const MeasureRow* const row : rows) measures.push_back(row->make(shape));
  return measures;
}

void merge_measures(Measures& measures, const Measures& others) {
  for (std::size_t i = 0; i < measures.size(); ++i) measures[i]->merge(*others.at(i));
}

/// Finishes each measure on one thread. Returns their results in the order of the measures.
StudyResults finish_all(const Measures& measures, Pool& pool) {
  std::vector<StudyResults> parts(measures.size());
  pool.run(parts.size(), [&](std::size_t i, std::size_t /*worker*/) { measures[i]->finish(parts[i]); });
  StudyResults results;
  for (StudyResults& part : parts) results.append(std::move(part));
  return results;
}

}  // namespace

void require_same_study(const StudyIdentity& identity, const std::string& name, const StudyIdentity& wanted,
                        const std::string& wanted_name) {
  for (std::size_t i = 0; i < std::max(identity.size(), wanted.size()); ++i) {
    const auto field = [&](const StudyIdentity& of) {
      return i < of.size() ? of[i] : std::pair<std::string, std::string>("nothing", "");
    };
    const auto [what, found] = field(identity);
    const auto [wanted_what, need] = field(wanted);
    if (what == wanted_what && found == need) continue;
    fail(Status::bad_input, "{}: of another study: {}: got {}, need {} as in {}", name, what,
         in_quotes(found), in_quotes(need), wanted_name);
  }
}

StudyState::StudyState(StudyHeader header)
    : header_(std::make_unique<StudyHeader>(std::move(header))),
      measures_(make_measures()),
      shuffled_(make_shuffled_measures()) {
  for (std::size_t i = 0; i < header_->null_models; ++i) nulls_.push_back(make_null_measures());
}

std::vector<const MeasureRow*> StudyHeader::null_measures() const {
  std::vector<const MeasureRow*> rows = measures;
  std::erase_if(rows, [](const MeasureRow* row) { return !row->gives_evidence; });
  return rows;
}

std::vector<const MeasureRow*> StudyHeader::shuffled_measures() const {
  if (null_shuffles == 0) return {};
  std::vector<const MeasureRow*> rows = measures;
  std::erase_if(rows, [](const MeasureRow* row) { return !row->of_order; });
  return rows;
}

Measures StudyState::make_measures() const {
  return make_all(header_->measures, header_->shape);
}

Measures StudyState::make_block_measures() const {
  Measures measures = make_measures();
  for (std::size_t i = 0; i < measures.size(); ++i) measures[i]->look_at(*measures_[i]);
  return measures;
}

Measures StudyState::make_null_measures() const {
  return make_all(header_->null_measures(), header_->shape);
}

Measures StudyState::make_shuffled_measures() const {
  return make_all(header_->shuffled_measures(), header_->shape);
}

std::vector<std::uint64_t> StudyState::missing(std::size_t most) const {
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t block = 0; block < blocks_.value_or(0) && blocks.size() < most; ++block) {
    if (!has(block)) blocks.push_back(block);
  }
  return blocks;
}

std::vector<Warning> StudyState::warnings() const {
  std::vector<Warning> list;
  for (const auto& [code, told] : warnings_) list.push_back({code, told.message, told.count});
  return list;
}

void StudyState::add_null(std::size_t model, const std::vector<std::unique_ptr<Measure>>& measures) {
  merge_measures(nulls_.at(model), measures);
}

void StudyState::add_shuffled(const std::vector<std::unique_ptr<Measure>>& measures) {
  merge_measures(shuffled_, measures);
}

void StudyState::tell(const std::string& code, const Told& told) {
  const auto [place, fresh] = warnings_.try_emplace(code, told);
  if (fresh) return;
  place->second.count += told.count;
  if (told.block >= place->second.block) return;
  place->second.block = told.block;
  place->second.message = told.message;
}

void StudyState::trim_skipped() {
  while (skipped_.size() > kListed) skipped_.erase(std::prev(skipped_.end()));
}

void StudyState::add(const CorpusBlock& block, const std::vector<std::unique_ptr<Measure>>& measures,
                     const std::vector<Warning>& warnings, const std::string& kernel) {
  if (!done_.insert(block.number).second) throw std::logic_error("a block of a study came twice");
  merge_measures(measures_, measures);
  counts_ += block.counts;
  for (std::size_t i = 0; i < block.skipped.size(); ++i)
    skipped_.emplace(SkippedKey{block.number, i}, block.skipped[i]);
  trim_skipped();
  for (const Warning& warning : warnings) tell(warning.code, {block.number, warning.message, warning.count});
  kernels_.insert(kernel);
}

void StudyState::end_corpus(std::uint64_t blocks, std::uint64_t tokens_hash) {
  blocks_ = blocks;
  tokens_hash_ = tokens_hash;
}

void StudyState::merge(const StudyState& other, const std::string& name, const std::string& other_name) {
  require_same_study(other.header().identity, other_name, header().identity, name);
  if (blocks_ && other.blocks_ &&
      std::tie(*blocks_, tokens_hash_) != std::tie(*other.blocks_, other.tokens_hash_)) {
    fail(Status::bad_input,
         "{}: of another study: the tokens of the corpus are not those of {}: need the same tokenizer",
         other_name, name);
  }
  constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
  const auto lowest = [](const StudyState& state) {
    return state.done_.empty() ? none : *state.done_.begin();
  };
  const auto place = [&](const StudyState& state) {
    return std::tuple(lowest(state), state.header().model_path, state.header().files);
  };
  if (place(other) < place(*this)) {
    header_->model_path = other.header().model_path;
    header_->files = other.header().files;
  }
  for (const std::uint64_t block : other.done_) {
    if (!done_.insert(block).second)
      fail(Status::bad_input, "{}: block {} is in {} too; need shards that have none in common", other_name,
           block, name);
  }
  if (other.blocks_) end_corpus(*other.blocks_, other.tokens_hash_);
  merge_measures(measures_, other.measures_);
  merge_measures(shuffled_, other.shuffled_);
  for (std::size_t i = 0; i < nulls_.size(); ++i) merge_measures(nulls_[i], other.nulls_.at(i));
  counts_ += other.counts_;
  skipped_.insert(other.skipped_.begin(), other.skipped_.end());
  trim_skipped();
  for (const auto& [code, told] : other.warnings_) tell(code, told);
  kernels_.insert(other.kernels_.begin(), other.kernels_.end());
}

StudyResults StudyState::finish(Pool& pool) const {
  const std::vector<const MeasureRow*> twins = header_->shuffled_measures();
  for (std::size_t i = 0; i < measures_.size(); ++i) {
    const auto twin = std::ranges::find(twins, header_->measures[i]);
    const auto place = static_cast<std::size_t>(twin - twins.begin());
    measures_[i]->compare_with(twin == twins.end() ? nullptr : shuffled_[place].get());
  }
  StudyResults results = finish_all(measures_, pool);
  for (const auto& measures : nulls_) {
    const StudyResults of_null = finish_all(measures, pool);
    results.null_evidence.insert(results.null_evidence.end(), of_null.evidence.begin(),
                                 of_null.evidence.end());
  }
  add_roles(results, header_->shape);
  return results;
}

}  // namespace attnctl
