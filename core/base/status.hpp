// Errors of core: values with a code of the ABI (KINORA_ERROR_INVALID ...) and one line that says what to do
// about it.
#pragma once
#include <cstdint>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "kinora/abi/base.h"
#include "kinora/error.hpp"

namespace kinora::core {

struct Failure {
  int32_t code = KINORA_ERROR_FAILED;
  std::string message;
};

// fail(KINORA_ERROR_NOT_FOUND, "{}: no such file", path); converts to any Result. Function templates of core
// are inline: a library would otherwise export its instances (core/exports.map).
template <class... Args>
inline Failure fail(int32_t code, fmt::format_string<Args...> format, Args&&... args) {
  return {code, fmt::format(format, std::forward<Args>(args)...)};
}

// A value, or why there is none. Reading the value of a failed Result is undefined: test it first.
template <class T>
class [[nodiscard]] Result {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}
  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  const Failure& failure() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Failure> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() { failure_.code = KINORA_OK; }
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Failure failure) : failure_(std::move(failure)) {
    if (failure_.code == KINORA_OK) failure_.code = KINORA_ERROR_FAILED;
  }
  explicit operator bool() const { return failure_.code == KINORA_OK; }
  const Failure& failure() const { return failure_; }

 private:
  Failure failure_;
};

using Status = Result<void>;

// For code inside a job, which uses exceptions: returns the value, or throws kinora::Error with the failure's
// code and message.
template <class T>
inline T or_throw(Result<T> result) {
  if (!result) throw Error(result.failure().code, result.failure().message);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// The reverse: turns what f throws into a Failure.
template <class F>
inline auto catching(F&& f) -> Result<decltype(f())> {
  try {
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      return {};
    } else {
      return f();
    }
  } catch (const Error& e) {
    return Failure{e.code(), e.what()};
  } catch (const std::bad_alloc&) {
    return Failure{KINORA_ERROR_NO_MEMORY, "out of memory"};
  } catch (const std::exception& e) {
    return Failure{KINORA_ERROR_FAILED, e.what()};
  }
}

}  // namespace kinora::core
