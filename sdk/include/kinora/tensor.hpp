// Tensors of the stable tier: libtorch's operators through the host, no libtorch header (see abi/tensor.h).
//
// A Tensor is one counted reference; copies share the data. Every operator of libtorch can be called by name
// with op(); those that samplers, losses, links and precisions use are declared as functions. Autograd
// records them all.
#pragma once
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kinora/abi/tensor.h"
#include "kinora/error.hpp"

KINORA_SDK_BEGIN

namespace kinora {

inline const kinora_tensors_api& tensors_api() {
  static const auto& api = interface<kinora_tensors_api>(KINORA_INTERFACE_TENSORS);
  return api;
}

class Tensor {
 public:
  Tensor() = default;
  static Tensor adopt(kinora_tensor h) {
    Tensor t;
    t.h_ = h;
    return t;
  }
  static Tensor borrow(kinora_tensor h) {
    Tensor t;
    if (h) check(tensors_api().retain(h, &t.h_));
    return t;
  }
  Tensor(const Tensor& o) {
    if (o.h_) check(tensors_api().retain(o.h_, &h_));
  }
  Tensor(Tensor&& o) noexcept : h_(std::exchange(o.h_, nullptr)) {}
  Tensor& operator=(Tensor o) noexcept {
    std::swap(h_, o.h_);
    return *this;
  }
  ~Tensor() {
    if (h_) tensors_api().release(h_);
  }

  bool defined() const { return h_ != nullptr; }
  kinora_tensor get() const { return h_; }
  kinora_tensor release() { return std::exchange(h_, nullptr); }

  kinora_tensor_info info() const {
    kinora_tensor_info i{};
    i.struct_size = sizeof i;
    check(tensors_api().info(h_, &i));
    return i;
  }
  int64_t dim() const { return info().ndim; }
  // Negative dimensions count from the end.
  int64_t size(int64_t d) const {
    const auto i = info();
    const int64_t at = d < 0 ? d + i.ndim : d;
    if (at < 0 || at >= i.ndim)
      throw Error(KINORA_ERROR_INVALID, "a tensor of " + std::to_string(i.ndim) +
                                            " dimensions has no dimension " + std::to_string(d));
    return i.shape[at];
  }
  std::vector<int64_t> sizes() const {
    const auto i = info();
    return {i.shape, i.shape + i.ndim};
  }
  int64_t numel() const { return info().numel; }
  int32_t dtype() const { return info().dtype; }
  bool requires_grad() const { return info().requires_grad != 0; }
  template <class E>
  E* data() const {
    void* p = nullptr;
    check(tensors_api().data(h_, &p));
    return static_cast<E*>(p);
  }
  // The only element of a CPU float64 tensor, or of any tensor after to(KINORA_DTYPE_FLOAT64).
  double item() const;

  Tensor operator-() const;
  Tensor operator[](int64_t i) const;  // select along dim 0
  Tensor to(int32_t dtype) const;
  Tensor detach() const;
  Tensor contiguous() const;
  Tensor reshape(std::vector<int64_t> shape) const;
  Tensor sum() const;
  Tensor mean(std::vector<int64_t> dims, bool keepdim = false) const;
  Tensor narrow(int64_t dim, int64_t start, int64_t length) const;

 private:
  kinora_tensor h_ = nullptr;
};

// An argument of an operator. Lists and texts are borrowed: they live until the call returns.
struct Value : kinora_value {
  Value() : kinora_value{KINORA_VALUE_NONE, 0, 0, 0, nullptr, nullptr, 0} {}
  Value(const Tensor& v) : Value() {
    if (v.defined()) kind = KINORA_VALUE_TENSOR, t = v.get();
  }
  Value(int64_t v) : Value() { kind = KINORA_VALUE_INT, i = v; }
  Value(int v) : Value(static_cast<int64_t>(v)) {}
  Value(double v) : Value() { kind = KINORA_VALUE_DOUBLE, d = v; }
  Value(bool v) : Value() { kind = KINORA_VALUE_BOOL, i = v; }
  Value(const std::vector<int64_t>& v) : Value(KINORA_VALUE_INTS, v.data(), v.size()) {}
  Value(const std::vector<double>& v) : Value(KINORA_VALUE_DOUBLES, v.data(), v.size()) {}
  Value(const std::vector<Tensor>& v) : Value(KINORA_VALUE_TENSORS, v.data(), v.size()) {
    static_assert(std::is_standard_layout_v<Tensor> &&
                  sizeof(Tensor) == sizeof(kinora_tensor));  // only its handle
  }
  Value(std::string_view v) : Value(KINORA_VALUE_STRING, v.data(), v.size()) {}
  Value(const std::string& v) : Value(std::string_view(v)) {}
  Value(const char* v) : Value(std::string_view(v)) {}  // otherwise it would convert to a bool

 private:
  Value(uint32_t of, const void* items, uint64_t count) : kinora_value{of, 0, 0, 0, nullptr, items, count} {}
};

// Operator with one tensor as its result: op("aten::add", "Tensor", {a, b, 1}). Missing arguments take their
// defaults.
inline Tensor op(const char* name, const char* overload, std::initializer_list<Value> args) {
  std::array<kinora_value, 16> plain;
  if (args.size() > plain.size())
    throw Error(KINORA_ERROR_INVALID, std::string(name) + ": more than 16 arguments");
  size_t n = 0;
  for (const auto& a : args) plain[n++] = a;
  kinora_value out{};
  check(tensors_api().call_op(name, overload, plain.data(), n, &out, 1));
  return Tensor::adopt(out.t);
}

inline Tensor operator+(const Tensor& a, const Tensor& b) { return op("aten::add", "Tensor", {a, b}); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return op("aten::sub", "Tensor", {a, b}); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return op("aten::mul", "Tensor", {a, b}); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return op("aten::div", "Tensor", {a, b}); }
inline Tensor operator+(const Tensor& a, double b) { return op("aten::add", "Scalar", {a, b}); }
inline Tensor operator-(const Tensor& a, double b) { return op("aten::sub", "Scalar", {a, b}); }
inline Tensor operator*(const Tensor& a, double b) { return op("aten::mul", "Scalar", {a, b}); }
inline Tensor operator/(const Tensor& a, double b) { return op("aten::div", "Scalar", {a, b}); }
inline Tensor operator*(double a, const Tensor& b) { return b * a; }
inline Tensor operator+(double a, const Tensor& b) { return b + a; }
inline Tensor Tensor::operator-() const { return op("aten::neg", "", {*this}); }
inline Tensor Tensor::operator[](int64_t i) const { return op("aten::select", "int", {*this, 0, i}); }
inline Tensor Tensor::to(int32_t dtype) const {
  return op("aten::to", "dtype", {*this, static_cast<int64_t>(dtype)});
}
inline Tensor Tensor::detach() const { return op("aten::detach", "", {*this}); }
inline Tensor Tensor::contiguous() const { return op("aten::contiguous", "", {*this}); }
inline Tensor Tensor::reshape(std::vector<int64_t> shape) const {
  return op("aten::reshape", "", {*this, shape});
}
inline Tensor Tensor::sum() const { return op("aten::sum", "", {*this}); }
inline Tensor Tensor::mean(std::vector<int64_t> dims, bool keepdim) const {
  return op("aten::mean", "dim", {*this, dims, keepdim});
}
inline Tensor Tensor::narrow(int64_t dim, int64_t start, int64_t length) const {
  return op("aten::narrow", "", {*this, dim, start, length});
}
inline double Tensor::item() const {
  const Tensor d = to(KINORA_DTYPE_FLOAT64).contiguous();
  return *d.data<double>();
}
inline Tensor sqrt(const Tensor& x) { return op("aten::sqrt", "", {x}); }
inline Tensor exp(const Tensor& x) { return op("aten::exp", "", {x}); }
inline Tensor log(const Tensor& x) { return op("aten::log", "", {x}); }
inline Tensor square(const Tensor& x) { return x * x; }
inline Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b = {}) {
  return op("aten::linear", "", {x, w, b});
}

// A new CPU tensor with these numbers.
inline Tensor tensor(const std::vector<double>& v, const std::vector<int64_t>& shape) {
  kinora_tensor h = nullptr;
  check(tensors_api().empty(shape.data(), static_cast<int64_t>(shape.size()), KINORA_DTYPE_FLOAT64, nullptr,
                            &h));
  Tensor t = Tensor::adopt(h);
  std::copy(v.begin(), v.end(), t.data<double>());
  return t;
}
inline Tensor tensor(const std::vector<double>& v) { return tensor(v, {static_cast<int64_t>(v.size())}); }
inline Tensor full_like(const Tensor& like, double v) { return op("aten::full_like", "", {like, v}); }

// Sets the gradient mode of the calling thread; restores it at the end of the scope.
class GradMode {
 public:
  explicit GradMode(bool on) : before_(tensors_api().set_grad_mode(on)) {}
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;
  ~GradMode() { tensors_api().set_grad_mode(before_); }
  static bool enabled() {
    const GradMode asked(true);
    return asked.before_ != 0;
  }

 private:
  int32_t before_;
};

// How templates of the SDK pass a tensor through the ABI: here for the stable tier; aten.hpp adds the pinned
// tier. All four are templates, so that a specialisation is found wherever aten.hpp is among the includes.
template <class T>
kinora_tensor handle(const T& t);
template <class T>
kinora_tensor give(T t);
template <class T>
T adopt(kinora_tensor h);
template <class T>
T borrow(kinora_tensor h);
template <>
inline kinora_tensor handle<Tensor>(const Tensor& t) {
  return t.get();
}
template <>
inline kinora_tensor give<Tensor>(Tensor t) {
  return t.release();
}
template <>
inline Tensor adopt<Tensor>(kinora_tensor h) {
  return Tensor::adopt(h);
}
template <>
inline Tensor borrow<Tensor>(kinora_tensor h) {
  return Tensor::borrow(h);
}

// The tensors of a call by the interface's argument names. References that operator[] returns live as long as
// this object.
template <class T>
class Named {
 public:
  Named(const kinora_named* in, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i)
      if (in[i].tensor) tensors_.emplace(in[i].name, borrow<T>(in[i].tensor));
  }
  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  // A required tensor.
  const T& operator[](const std::string& name) const {
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) throw Error(KINORA_ERROR_INVALID, "input '" + name + "' is missing" + listed());
    return it->second;
  }
  T get(const std::string& name) const { return has(name) ? tensors_.at(name) : T(); }

 private:
  std::string listed() const {
    std::string out = "; given:";
    for (const auto& [n, t] : tensors_) out += " " + n;
    return tensors_.empty() ? "; no inputs were given" : out;
  }
  std::map<std::string, T> tensors_;
};

namespace detail {
template <class T>
void give_all(std::vector<T> from, kinora_tensor* out, uint64_t n_out) {
  for (uint64_t i = 0; i < n_out; ++i) out[i] = i < from.size() ? give(std::move(from[i])) : nullptr;
}
}  // namespace detail

}  // namespace kinora

KINORA_SDK_END
