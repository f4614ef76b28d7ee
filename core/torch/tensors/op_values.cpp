#include "core/torch/tensors/op_values.hpp"

#include <algorithm>

#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

using Kind = OpArgument::Kind;

Kind scalar_kind(c10::TypeKind k) {
  switch (k) {
    case c10::TypeKind::TensorType:
      return Kind::tensor;
    case c10::TypeKind::NumberType:
      return Kind::number;
    case c10::TypeKind::IntType:
      return Kind::integer;  // dtypes, layouts and memory formats are integers in a schema
    case c10::TypeKind::FloatType:
      return Kind::floating;
    case c10::TypeKind::BoolType:
      return Kind::truth;
    case c10::TypeKind::StringType:
      return Kind::string;
    case c10::TypeKind::DeviceObjType:
      return Kind::device;
    default:
      return Kind::other;
  }
}

Kind list_kind(const c10::TypePtr& element) {
  if (const auto o = element->cast<c10::OptionalType>())
    return o->getElementType()->kind() == c10::TypeKind::TensorType ? Kind::optional_tensors : Kind::other;
  switch (scalar_kind(element->kind())) {
    case Kind::tensor:
      return Kind::tensors;
    case Kind::number:
      return Kind::numbers;
    case Kind::integer:
      return Kind::integers;
    case Kind::floating:
      return Kind::floatings;
    case Kind::truth:
      return Kind::truths;
    case Kind::string:
      return Kind::strings;
    default:
      return Kind::other;
  }
}

OpArgument describe(const c10::Argument& a) {
  OpArgument out;
  out.schema = &a;
  auto type = a.type();
  if (const auto o = type->cast<c10::OptionalType>()) {
    out.optional = true;
    type = o->getElementType();
  }
  const auto list = type->cast<c10::ListType>();
  out.kind = list ? list_kind(list->getElementType()) : scalar_kind(type->kind());
  return out;
}

const char* given(uint32_t kind) {
  static constexpr const char* names[] = {"nothing",  "an integer", "a double", "a truth value", "a tensor",
                                          "integers", "tensors",    "a string", "doubles"};
  return kind < std::size(names) ? names[kind] : "a value of unknown kind";
}

c10::Scalar number_of(const kinora_value& v) {
  if (v.kind == KINORA_VALUE_DOUBLE) return v.d;
  if (v.kind == KINORA_VALUE_BOOL) return v.i != 0;
  return v.i;
}
bool is_number(const kinora_value& v) {
  return v.kind == KINORA_VALUE_INT || v.kind == KINORA_VALUE_DOUBLE || v.kind == KINORA_VALUE_BOOL;
}

template <class To, class From>
c10::List<To> list_of(const kinora_value& v) {
  c10::List<To> out;
  out.reserve(v.n);
  for (uint64_t i = 0; i < v.n; ++i) out.push_back(static_cast<To>(static_cast<const From*>(v.list)[i]));
  return out;
}

template <class To>
c10::List<To> tensors_of(const kinora_value& v) {
  c10::List<To> out;
  for (uint64_t i = 0; i < v.n; ++i) {
    const at::Tensor t = borrow<at::Tensor>(static_cast<const kinora_tensor*>(v.list)[i]);
    if constexpr (std::is_same_v<To, at::Tensor>) {
      out.push_back(t);
    } else {
      out.push_back(t.defined() ? To(t) : To());
    }
  }
  return out;
}

// An integer given for a list of n: a kernel size of 3 for [3, 3].
c10::IValue integers_of(const OpArgument& a, const kinora_value& v) {
  if (v.kind == KINORA_VALUE_INTS) return list_of<int64_t, int64_t>(v);
  return c10::List<int64_t>(
      c10::IValue(std::vector<int64_t>(static_cast<size_t>(a.schema->N().value_or(1)), v.i)).toIntList());
}

// A string as c10::Device writes it, or an index: -1 for the CPU, otherwise that CUDA device.
c10::Device device_of(const kinora_value& v) {
  if (v.kind == KINORA_VALUE_STRING) return c10::Device(std::string(static_cast<const char*>(v.list), v.n));
  return v.i < 0 ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(v.i));
}

// Nothing if the argument cannot take a value of this kind.
std::optional<c10::IValue> converted(const OpArgument& a, const kinora_value& v) {
  const uint32_t k = v.kind;
  switch (a.kind) {
    case Kind::tensor:
      if (k == KINORA_VALUE_TENSOR && v.t) return borrow<at::Tensor>(v.t);
      break;
    case Kind::number:
      if (is_number(v)) return number_of(v);
      break;
    case Kind::integer:
      if (k == KINORA_VALUE_INT || k == KINORA_VALUE_BOOL) return v.i;
      break;
    case Kind::floating:
      if (is_number(v)) return number_of(v).toDouble();
      break;
    case Kind::truth:
      if (k == KINORA_VALUE_BOOL || k == KINORA_VALUE_INT) return v.i != 0;
      break;
    case Kind::string:
      if (k == KINORA_VALUE_STRING) return std::string(static_cast<const char*>(v.list), v.n);
      break;
    case Kind::device:
      if (k == KINORA_VALUE_STRING || k == KINORA_VALUE_INT) return device_of(v);
      break;
    case Kind::tensors:
      if (k == KINORA_VALUE_TENSORS) return tensors_of<at::Tensor>(v);
      break;
    case Kind::optional_tensors:
      if (k == KINORA_VALUE_TENSORS) return tensors_of<std::optional<at::Tensor>>(v);
      break;
    case Kind::integers:
      if (k == KINORA_VALUE_INTS || k == KINORA_VALUE_INT) return integers_of(a, v);
      break;
    case Kind::floatings:
      if (k == KINORA_VALUE_DOUBLES) return list_of<double, double>(v);
      if (k == KINORA_VALUE_INTS) return list_of<double, int64_t>(v);
      break;
    case Kind::truths:
      if (k == KINORA_VALUE_INTS) return list_of<bool, int64_t>(v);
      break;
    case Kind::numbers:
      if (k == KINORA_VALUE_DOUBLES) return list_of<c10::Scalar, double>(v);
      if (k == KINORA_VALUE_INTS) return list_of<c10::Scalar, int64_t>(v);
      break;
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace

Operator::Operator(const c10::OperatorHandle& op) : handle(op) {
  const auto& s = op.schema();
  name = s.name() + (s.overload_name().empty() ? "" : "." + s.overload_name());
  for (const auto& a : s.arguments()) arguments.push_back(describe(a));
}

c10::IValue Operator::argument(size_t i, const kinora_value& v) const {
  const auto& a = arguments[i];
  if (v.kind == KINORA_VALUE_NONE || (v.kind == KINORA_VALUE_TENSOR && !v.t)) {
    if (a.optional) return {};
    return missing(i);
  }
  if (auto out = converted(a, v)) return *std::move(out);
  raise(KINORA_ERROR_INVALID, "{}: argument {} ({}) is of type {}; {} was given", name, i, a.schema->name(),
        a.schema->type()->str(), given(v.kind));
}

c10::IValue Operator::missing(size_t i) const {
  const auto& a = arguments[i];
  if (const auto& d = a.schema->default_value()) return *d;
  if (a.optional) return {};
  raise(KINORA_ERROR_INVALID, "{}: argument {} ({}, {}) has no default and was not given", name, i,
        a.schema->name(), a.schema->type()->str());
}

kinora_value result_of(const c10::IValue& v) {
  kinora_value out{};
  if (v.isTensor()) {
    out.kind = KINORA_VALUE_TENSOR;
    out.t = give(v.toTensor());
  } else if (v.isInt()) {
    out.kind = KINORA_VALUE_INT;
    out.i = v.toInt();
  } else if (v.isDouble()) {
    out.kind = KINORA_VALUE_DOUBLE;
    out.d = v.toDouble();
  } else if (v.isBool()) {
    out.kind = KINORA_VALUE_BOOL;
    out.i = v.toBool();
  } else if (v.isTensorList()) {
    const auto list = v.toTensorVector();
    auto* handles = new kinora_tensor[list.size()];
    std::transform(list.begin(), list.end(), handles, [](const at::Tensor& t) { return give(t); });
    out.kind = KINORA_VALUE_TENSORS;
    out.list = handles;
    out.n = list.size();
  } else if (v.isIntList()) {
    const auto list = v.toIntVector();
    out.kind = KINORA_VALUE_INTS;
    out.list = std::copy(list.begin(), list.end(), new int64_t[list.size()]) - list.size();
    out.n = list.size();
  } else if (!v.isNone()) {
    raise(KINORA_ERROR_UNSUPPORTED, "a result of type {} cannot be stored in a kinora_value", v.tagKind());
  }
  return out;
}

}  // namespace kinora::core
