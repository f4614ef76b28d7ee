// The arguments of one operator, as its schema states them, and the conversion of a kinora_value to each.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "kinora/abi/tensor.h"

namespace kinora::core {

struct OpArgument {
  enum class Kind : uint8_t {
    tensor,
    number,
    integer,
    floating,
    truth,
    string,
    device,  // one value
    tensors,
    optional_tensors,
    numbers,
    integers,
    floatings,
    truths,
    strings,  // a list
    other     // only absent or with its default
  };
  Kind kind = Kind::other;
  bool optional = false;
  const c10::Argument* schema = nullptr;
};

struct Operator {
  c10::OperatorHandle handle;
  std::string name;  // "aten::add.Tensor"
  std::vector<OpArgument> arguments;

  explicit Operator(const c10::OperatorHandle& op);
  // Throws Error(KINORA_ERROR_INVALID) that names the argument and the types.
  c10::IValue argument(size_t i, const kinora_value& v) const;
  c10::IValue missing(size_t i) const;
};

// Converts a result; the caller owns its tensors and lists.
kinora_value result_of(const c10::IValue& v);

}  // namespace kinora::core
