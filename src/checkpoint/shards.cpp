#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/readers.hpp"
#include "formats/json.hpp"

namespace attnctl {
namespace {

/// Parses an index of shards {"metadata": {"total_size", ...}, "weight_map": {tensor: shard}}. Ignores other
/// members.
class ShardIndexEvents final : public JsonEvents {
 public:
  std::vector<std::pair<std::string, std::size_t>> tensors;  // tensor name and index in `shards`
  std::vector<std::string> shards;                           // file names, in the order of first occurrence
  std::optional<double> total_size;
  bool has_map = false;

  explicit ShardIndexEvents(std::string_view extension) : extension_(extension) {}

 private:
  void on_begin(Container container) override {
    if (depth() == 0 && container != Container::object)
      refuse("got an array, need an object with weight_map");
    if (depth() == 1 && section_ == "weight_map") {
      if (container != Container::object) refuse("got an array, need an object of tensors to shards");
      if (std::exchange(has_map, true)) refuse("got the key \"weight_map\" twice, need different keys");
    }
    if (depth() == 2 && section_ == "weight_map") refuse("got a list or object, need the name of a shard");
  }

  void on_end(Container /*container*/) override {}

  void on_key(std::string& key) override {
    if (depth() <= 2) (depth() == 1 ? section_ : key_) = std::move(key);
  }

  void on_scalar(const JsonScalar& scalar) override {
    if (depth() < 2 && (depth() == 0 || section_ == "weight_map"))
      refuse(fmt::format("got {}, need an object", describe(scalar)));
    if (depth() == 2 && section_ == "weight_map") {
      const auto* const shard = std::get_if<std::string*>(&scalar);
      if (shard == nullptr) refuse(fmt::format("got {}, need the name of a shard", describe(scalar)));
      tensors.emplace_back(std::move(key_), shard_number(**shard));
    }
    if (depth() == 2 && section_ == "metadata" && key_ == "total_size") {
      if (const auto* const integer = std::get_if<std::uint64_t>(&scalar))
        total_size = static_cast<double>(*integer);
      if (const auto* const number = std::get_if<double>(&scalar)) total_size = *number;
    }
  }

  std::size_t shard_number(const std::string& shard) {
    const auto [known, added] = numbers_.try_emplace(shard, shards.size());
    if (added) {
      if (const auto fault = path_fault(shard))
        refuse(fmt::format("got shard {}, {}", in_quotes(shard), *fault));
      if (!shard.ends_with(extension_))
        refuse(fmt::format("got shard {}, need the name of a {} file", in_quotes(shard), extension_));
      shards.push_back(shard);
    }
    return known->second;
  }

  std::string_view extension_;
  std::string section_;
  std::string key_;
  std::map<std::string, std::size_t> numbers_;
};

class ShardedCheckpoint final : public Checkpoint {
 public:
  explicit ShardedCheckpoint(std::vector<std::unique_ptr<Checkpoint>> shards) : shards_(std::move(shards)) {
    for (std::size_t s = 0; s < shards_.size(); ++s) {
      for (std::size_t i = 0; i < shards_[s]->tensors().size(); ++i) places_.push_back({s, i});
    }
    const auto info = [this](const ShardTensor& p) -> const TensorInfo& {
      return shards_[p.shard]->tensors()[p.index];
    };
    const auto name = [&](const ShardTensor& place) -> const std::string& { return info(place).name; };
    if (const ShardTensor* const twice = sort_by_name(places_, name)) {
      refuse_tensor(info(twice[0]).file, name(*twice), "also in {}, need it in one shard",
                    info(twice[1]).file);
    }
    for (const ShardTensor& place : places_) tensors_.push_back(info(place));
  }

  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return tensors_; }
  [[nodiscard]] TensorView tensor(std::size_t index) override {
    const ShardTensor place = places_.at(index);
    return shards_[place.shard]->tensor(place.index);
  }
  void release(std::size_t index) override {
    shards_[places_.at(index).shard]->release(places_[index].index);
  }
  [[nodiscard]] std::uint64_t copied_bytes(std::size_t index) const override {
    return shards_[places_.at(index).shard]->copied_bytes(places_[index].index);
  }
  void forget(std::size_t index, std::span<const std::byte> part) override {
    shards_[places_.at(index).shard]->forget(places_[index].index, part);
  }

 private:
  struct ShardTensor {
    std::size_t shard = 0;
    std::size_t index = 0;
  };
  std::vector<std::unique_ptr<Checkpoint>> shards_;
  std::vector<ShardTensor> places_;
  std::vector<TensorInfo> tensors_;
};

void check_weight_map(const FileBytes& file, const ShardIndexEvents& index,
                      const std::vector<std::unique_ptr<Checkpoint>>& shards) {
  for (const auto& [tensor, shard] : index.tensors) {
    if (shards[shard]->find(tensor) == Checkpoint::npos) {
      refuse(file.name(), "/weight_map: tensor {} is not in {}, need it there", in_quotes(tensor),
             in_quotes(index.shards[shard]));
    }
  }
}

void warn_of_differences(const FileBytes& file, const ShardIndexEvents& index, const Checkpoint& all,
                         Warnings& warnings) {
  double stored = 0;
  for (const TensorInfo& info : all.tensors())
    stored += static_cast<double>(checked_product(info.shape).value_or(0) * size_of(info.dtype));
  if (index.total_size && *index.total_size != stored) {
    warnings.add("total_size",
                 fmt::format("{}: /metadata/total_size: got {:.0f}, the tensors hold {:.0f} bytes",
                             file.name(), *index.total_size, stored));
  }
  const std::size_t unlisted = all.tensors().size() - index.tensors.size();
  if (unlisted > 0) {
    warnings.add("unlisted_tensor",
                 fmt::format("{}: /weight_map: the shards hold tensors that it does not list", file.name()),
                 unlisted);
  }
}

}  // namespace

std::unique_ptr<Checkpoint> open_shard_index(FileBytes file, const std::filesystem::path& directory,
                                             std::string_view extension, Warnings& warnings) {
  ShardIndexEvents index(extension);
  index.parse({.file = file.name(), .text = file.text()});
  if (!index.has_map) refuse(file.name(), "/weight_map: missing, need tensors and their shards");
  if (const auto* const twice = sort_by_name(index.tensors, &std::pair<std::string, std::size_t>::first))
    refuse(file.name(), "/weight_map: got the key {} twice, need different keys", in_quotes(twice->first));
  std::vector<std::unique_ptr<Checkpoint>> shards;
  for (const std::string& shard : index.shards)
    shards.push_back(open_checkpoint(directory / shard, warnings, Status::bad_input));
  check_weight_map(file, index, shards);
  auto all = std::make_unique<ShardedCheckpoint>(std::move(shards));
  warn_of_differences(file, index, *all, warnings);
  return all;
}

}  // namespace attnctl
