// Converts exceptions at the ABI boundary, libtorch's included, to a status with libtorch's own text, without
// its stack trace and its advice for debugging.
#pragma once
#include <algorithm>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "core/base/status.hpp"
#include "kinora/error.hpp"

namespace kinora::core {

inline int32_t code_of(const c10::Error& e) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&e)) return KINORA_ERROR_NO_MEMORY;
  if (dynamic_cast<const c10::NotImplementedError*>(&e)) return KINORA_ERROR_UNSUPPORTED;
  if (dynamic_cast<const c10::IndexError*>(&e) || dynamic_cast<const c10::ValueError*>(&e) ||
      dynamic_cast<const c10::TypeError*>(&e))
    return KINORA_ERROR_INVALID;
  return KINORA_ERROR_FAILED;
}

inline std::string text_of(const c10::Error& e) {
  std::string text = e.what_without_backtrace();
  // An error of CUDA: its name, then a link and five lines about debugging.
  text.resize(
      std::min({text.size(), text.find("\nSearch for `cuda"), text.find("\nCUDA kernel errors might")}));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Calls f(); libtorch's errors become kinora::Error without the stack trace.
template <class F>
inline auto with_plain_errors(F&& f) {
  try {
    return f();
  } catch (const c10::Error& e) {
    throw Error(code_of(e), text_of(e));
  }
}

// Wraps a function that takes references to Args so that it throws plain errors.
template <auto f, class... Args>
inline auto plain(Args&... args) {
  return with_plain_errors([&] { return f(args...); });
}

// Does as kinora::guard; `where` (may be empty) is the prefix of a libtorch error's message.
template <class F>
inline int32_t torch_guard(F&& f, const std::string& where = {}) noexcept {
  return kinora::guard([&] {
    try {
      f();
    } catch (const c10::Error& e) {
      const std::string text = text_of(e);
      throw Error(code_of(e), where.empty() ? text : where + ": " + text);
    }
  });
}

// Throws a failure: raise(KINORA_ERROR_INVALID, "'{}' ...", name).
template <class... Args>
[[noreturn]] inline void raise(int32_t code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kinora::core
