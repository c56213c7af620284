#include "checkpoint/torch/pickle.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/torch/unpickler.hpp"

namespace attnctl {

std::string_view name_of(PickleValue::Kind kind) {
  using Kind = PickleValue::Kind;
  switch (kind) {
    case Kind::mark:
      return "a mark";
    case Kind::none:
      return "None";
    case Kind::boolean:
      return "a boolean";
    case Kind::integer:
      return "an integer";
    case Kind::wide:
      return "an integer of more than 64 bits";
    case Kind::text:
      return "a text";
    case Kind::tuple:
      return "a tuple";
    case Kind::list:
      return "a list";
    case Kind::dict:
      return "a dictionary";
    case Kind::global:
      return "a name";
    case Kind::storage:
      return "a storage";
    case Kind::tensor:
      return "a tensor";
    case Kind::opaque:
      return "a value of another type";
  }
  return "nothing";
}

Pickle::Pickle(Source source) : source_(std::move(source)) {
  Unpickler(*this).run();
}

std::string_view Pickle::text(const PickleValue& value) const {
  return source_.text.substr(static_cast<std::size_t>(value.number), value.length);
}

std::span<const PickleValue> Pickle::items(const PickleValue& value) const {
  return nodes_.at(static_cast<std::size_t>(value.number));
}

// Opcodes that create objects: names, calls, references to storages.

bool Unpickler::take_object(unsigned char op) {
  switch (op) {
    case 'c':
    case 'i': {
      const std::string_view module = line();
      const std::string_view name = line();
      if (op == 'i') refuse(fmt::format("unsupported opcode, of {}.{}", shown(module), shown(name)));
      push_global(module, name);
      return true;
    }
    case 0x93: {
      const PickleValue name = pop(Kind::text, "for a name");
      const PickleValue module = pop(Kind::text, "for a module");
      push_global(pickle_.text(module), pickle_.text(name));
      return true;
    }
    case 'R': {
      const PickleValue arguments = pop(Kind::tuple, "of arguments");
      call(pop(Kind::global, "to call"), arguments);
      return true;
    }
    case 'b': {
      // The state of an OrderedDict, such as "_metadata" of modules, holds no weights.
      (void)pop();
      need_kind(top(), Kind::dict, "to build; others are unsupported");
      return true;
    }
    case 'Q':
      push_storage(pop(Kind::tuple, "that refers to a storage"));
      return true;
    default:
      return false;
  }
}

void Unpickler::push_global(std::string_view module, std::string_view name) {
  const auto names = pickle_names();
  const auto known = std::find_if(names.begin(), names.end(), [&](const PickleName& each) {
    return each.name.size() == module.size() + 1 + name.size() && each.name.starts_with(module) &&
           each.name[module.size()] == '.' && each.name.ends_with(name);
  });
  if (known == names.end()) {
    refuse(
        fmt::format("unsupported name {}.{} in a dictionary of tensors; nothing was executed; save only the "
                    "state_dict",
                    shown(module), shown(name)));
  }
  push({Kind::global, 0, known - names.begin()});
}

/// Reads ("storage", type, key, location, count[, None or (view key, offset, count)]).
void Unpickler::push_storage(const PickleValue& id) {
  const auto items = pickle_.items(id);
  if (items.size() != 5 && items.size() != 6)
    refuse(fmt::format("got {} items, need the 5 or 6 of a storage", items.size()));
  need_kind(items[0], Kind::text, "\"storage\"");
  if (pickle_.text(items[0]) != "storage")
    refuse(fmt::format("unsupported reference to {}", in_quotes(pickle_.text(items[0]))));
  need_kind(items[1], Kind::global, "of a storage");
  const PickleName& type = pickle_names()[static_cast<std::size_t>(items[1].number)];
  if (type.role != PickleRole::storage)
    refuse(fmt::format("unsupported storage {}, need one of torch", type.name));
  need_kind(items[2], Kind::text, "for the storage's key");
  need_kind(items[4], Kind::integer, "for the storage's size");
  PickleStorage storage = {pickle_.text(items[2]), type.dtype, items[4].number, 0, items[4].number};
  if (items.size() == 6 && items[5].kind != Kind::none) {
    need_kind(items[5], Kind::tuple, "for a view of the storage");
    const auto view = pickle_.items(items[5]);
    if (view.size() != 3) refuse(fmt::format("got {} items, need the 3 of a view", view.size()));
    need_kind(view[1], Kind::integer, "for the view's offset");
    need_kind(view[2], Kind::integer, "for the view's size");
    storage.view_offset = view[1].number;
    storage.view_count = view[2].number;
  }
  if (storage.count < 0 || storage.view_offset < 0 || storage.view_count < 0 ||
      storage.view_offset > storage.count || storage.view_count > storage.count - storage.view_offset) {
    refuse(fmt::format("got {} elements at {} of a storage of {}", storage.view_count, storage.view_offset,
                       storage.count));
  }
  charge(2 * sizeof storage);
  pickle_.storages_.push_back(storage);
  push({Kind::storage, 0, static_cast<std::int64_t>(pickle_.storages_.size() - 1)});
}

void Unpickler::call(const PickleValue& callee, const PickleValue& arguments) {
  const PickleName& name = pickle_names()[static_cast<std::size_t>(callee.number)];
  const auto items = pickle_.items(arguments);
  const bool callable = name.role != PickleRole::storage && name.role != PickleRole::dtype;
  if (!callable) refuse(fmt::format("unsupported call of {}", name.name));
  if (items.size() < name.fewest || items.size() > name.most) {
    refuse(fmt::format("unsupported call of {} with {} arguments, need {} to {}", name.name, items.size(),
                       name.fewest, name.most));
  }
  switch (name.role) {
    case PickleRole::ordered_dict:
      return call_ordered_dict(items);
    case PickleRole::size:
      need_kind(items[0], Kind::tuple, "of extents");
      return push(items[0]);
    case PickleRole::rebuild:
      return call_rebuild(name, items);
    case PickleRole::parameter:
      need_kind(items[0], Kind::tensor, "for a parameter");
      return push(items[0]);
    case PickleRole::device:
    case PickleRole::storage:
    case PickleRole::dtype:
      return push({Kind::opaque});
  }
}

/// Python 3 fills the dictionary later; Python 2 passes a list of pairs.
void Unpickler::call_ordered_dict(std::span<const PickleValue> arguments) {
  std::vector<PickleValue> items;
  if (!arguments.empty()) {
    need_kind(arguments[0], Kind::list, "of pairs");
    for (const PickleValue& pair : pickle_.items(arguments[0])) {
      if (pair.kind != Kind::tuple) need_kind(pair, Kind::list, "of a key and a value");
      const auto two = pickle_.items(pair);
      if (two.size() != 2) refuse(fmt::format("got {} items, need a key and a value", two.size()));
      charge(2 * two.size_bytes());
      items.insert(items.end(), two.begin(), two.end());
    }
  }
  push_node(Kind::dict, std::move(items));
}

void Unpickler::call_rebuild(const PickleName& name, std::span<const PickleValue> arguments) {
  need_kind(arguments[0], Kind::storage, "for a tensor");
  const auto storage = static_cast<std::size_t>(arguments[0].number);
  PickleTensor tensor = {storage, DType::f32, arguments[1], arguments[2], arguments[3]};
  std::optional<DType> dtype = pickle_.storages_[storage].dtype;
  if (name.typed) {
    need_kind(arguments[6], Kind::global, "of a dtype");
    const PickleName& type = pickle_names()[static_cast<std::size_t>(arguments[6].number)];
    if (type.role != PickleRole::dtype) refuse(fmt::format("got {}, need a dtype", type.name));
    dtype = type.dtype;
  }
  if (!dtype) refuse("got a storage of bytes, need one with a dtype");
  tensor.dtype = *dtype;
  // Metadata describe lazy operations, such as conjugation, that the elements do not include.
  const bool metadata = arguments.size() == name.most && name.most > 4 && arguments.back().kind != Kind::none;
  if (metadata && (arguments.back().kind != Kind::dict || !pickle_.items(arguments.back()).empty()))
    refuse("unsupported metadata of a tensor");
  charge(2 * sizeof tensor);
  pickle_.tensors_.push_back(tensor);
  push({Kind::tensor, 0, static_cast<std::int64_t>(pickle_.tensors_.size() - 1)});
}

}  // namespace attnctl
