// Errors of a plugin: exceptions inside, a status and a message at the ABI boundary.
#pragma once
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "kinora/abi/host.h"

#ifdef KINORA_HOST
extern "C" const kinora_host* kinora_core_host();  // libkinora's
#endif

KINORA_SDK_BEGIN

namespace kinora {

// The host of this library; set once by the plugin's entry, before any other of its code runs.
inline const kinora_host* g_host = nullptr;
inline const kinora_host* host() {
#ifdef KINORA_HOST  // a library or program of Kinora itself
  if (!g_host) return kinora_core_host();
#endif
  return g_host;
}

// Says what is wrong, where, and what to do, in one line.
class Error : public std::runtime_error {
 public:
  // A code that is no error's is KINORA_ERROR_FAILED.
  Error(int32_t code, const std::string& message)
      : std::runtime_error(message),
        code_(code < KINORA_OK && code >= KINORA_ERROR_REFUSED ? code : KINORA_ERROR_FAILED) {}
  int32_t code() const { return code_; }

 private:
  int32_t code_;
};

// Not an error: this rank's part of the model ends here (KINORA_SIGNAL_STOP).
struct Stop {};

inline std::string_view view(kinora_str s) { return {s.data ? s.data : "", s.size}; }
inline kinora_str str(std::string_view s) { return {s.data(), s.size()}; }

// Turns a status that a host call or another plugin returned into an exception, with the message that came
// with it.
inline void check(int32_t status) {
  if (status == KINORA_OK) return;
  if (status == KINORA_SIGNAL_STOP)
    throw Error(KINORA_ERROR_FAILED, "KINORA_SIGNAL_STOP was returned, which only calls of a context may");
  std::string text = host() ? std::string(view(host()->last_error(host()))) : std::string();
  throw Error(status, text.empty() ? "call failed with status " + std::to_string(status) : text);
}

// The same for calls of a context, and for functions that run blocks, where a block may end this rank's part
// of the model.
inline void check_or_stop(int32_t status) {
  if (status == KINORA_SIGNAL_STOP) throw Stop{};
  check(status);
}

[[noreturn]] inline void refuse_needs(uint32_t needs, const char* of) {
  throw Error(KINORA_ERROR_UNSUPPORTED, std::string("needs of ") + of + " is " + std::to_string(needs) +
                                            ", which this plugin does not know; build it with a newer SDK");
}
// Refuses a struct with a member that must not be ignored and is not known here (abi/base.h, rule 11). It is part of
// every call: no more than a comparison is compiled into it.
inline void refuse_unknown(uint32_t needs, const char* of) {
  if (needs != 0) refuse_needs(needs, of);
}

// Leaves the message for the caller and returns the code.
inline int32_t set_error(int32_t code, const char* message) noexcept {
  if (host()) host()->set_error(host(), code, message);
  return code;
}

// Runs f and turns an exception into a status; every function that crosses the ABI is one guard.
template <class F>
int32_t guard(F&& f) noexcept {
  try {
    f();
    return KINORA_OK;
  } catch (const Stop&) {
    return KINORA_SIGNAL_STOP;
  } catch (const Error& e) {
    return set_error(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return set_error(KINORA_ERROR_NO_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return set_error(KINORA_ERROR_FAILED, e.what());
  } catch (...) {
    return set_error(KINORA_ERROR_FAILED, "an exception of unknown type");
  }
}

// The table of a host interface, or an Error that says why the host does not have it. The result never
// changes.
template <class Api>
const Api& interface(const char* id, uint32_t minor = KINORA_ABI_TARGET_MINOR) {
  if (!host())
    throw Error(KINORA_ERROR_FAILED, std::string(id) + " was asked for before the plugin's entry was called");
  const void* api = host()->get_interface(host(), id, minor);
  if (!api) check(KINORA_ERROR_UNSUPPORTED);
  return *static_cast<const Api*>(api);
}

enum class Log { trace = KINORA_LOG_TRACE, debug, info, warn, error };
inline void log(Log level, const std::string& message) {
  if (host()) host()->log(host(), static_cast<int32_t>(level), message.c_str());
}

}  // namespace kinora

KINORA_SDK_END
