#include "checkpoint/safetensors/safetensors.hpp"

#include <utility>

namespace attnctl {
namespace {

class SafetensorsFile final : public Checkpoint {
 public:
  SafetensorsFile(FileBytes file, SafetensorsLayout layout) : file_(std::move(file)) {
    tensors_.reserve(layout.entries.size());
    places_.reserve(layout.entries.size());
    for (SafetensorsEntry& entry : layout.entries) {
      places_.push_back(file_.bytes().subspan(layout.data_begin + entry.begin, entry.end - entry.begin));
      tensors_.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape), file_.name()});
    }
  }

  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return tensors_; }
  [[nodiscard]] TensorView tensor(std::size_t index) override {
    const TensorInfo& info = tensors_.at(index);
    return {info.dtype, info.shape, places_[index]};
  }
  void release(std::size_t index) override { file_.forget(places_.at(index)); }
  void forget(std::size_t /*index*/, std::span<const std::byte> part) override { file_.forget(part); }

 private:
  FileBytes file_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::span<const std::byte>> places_;
};

}  // namespace

std::unique_ptr<Checkpoint> open_safetensors(FileBytes file) {
  SafetensorsLayout layout = read_safetensors_layout(file);
  return std::make_unique<SafetensorsFile>(std::move(file), std::move(layout));
}

}  // namespace attnctl
