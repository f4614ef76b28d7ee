// Calls of `kinora plugins validate` into a component, and what the answers must be.
#pragma once
#include <concepts>
#include <string>

#include "apps/validate/check.hpp"
#include "apps/validate/watching_host.hpp"
#include "core/base/status.hpp"

namespace kinora {

// The message that the last call left by host->set_error().
inline std::string last_message() { return std::string(view(watching_host().last_error(&watching_host()))); }

// The error message of a call, "" for KINORA_OK. Throws Error if an exception leaves it, or if its status is
// none, or an error without a message.
template <class Call>
std::string answer(const std::string& what, Call call) {
  watch().now(what);
  watching_host().set_error(&watching_host(), KINORA_OK, "");
  int32_t status = KINORA_OK;
  try {
    status = call();
  } catch (...) {
    throw Error(KINORA_ERROR_FAILED, "an exception left " + what + "; catch it and return a status");
  }
  if (status == KINORA_OK) return "";
  if (status > 0 || status < KINORA_ERROR_REFUSED)
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format("{} returned {}; return KINORA_OK or an error of kinora/abi/base.h", what, status));
  if (last_message().empty())
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("{} returned {} without a message; call host->set_error() first", what, status));
  return last_message();
}

// Throws Error with the component's own message unless the call succeeded.
inline void require_ok(int32_t status, const std::string& call) {
  if (status == KINORA_OK) return;
  const std::string why = last_message();
  throw Error(status, fmt::format("{} returned {}: {}", call, status,
                                  why.empty() ? "no message; call host->set_error() first" : why));
}

// A bit of `needs` that no plugin of today knows; the call must be refused (abi/base.h, rule 11).
inline constexpr uint32_t kUnknownNeed = 1u << 31;
template <std::invocable Call>
void require_refused(Call make, const std::string& call) {
  watch().now(call);
  watching_host().set_error(&watching_host(), KINORA_OK, "");
  int32_t status = KINORA_OK;
  try {
    status = make();
  } catch (...) {
    throw Error(KINORA_ERROR_FAILED, "an exception left " + call + "; catch it and return a status");
  }
  if (status != KINORA_ERROR_UNSUPPORTED)
    throw Error(KINORA_ERROR_FAILED, fmt::format("{} returned {}; return KINORA_ERROR_UNSUPPORTED, since it "
                                                 "may be about what the result depends on",
                                                 call, status));
}

// Makes the call, which is named first.
template <std::invocable Call>
void require_ok(Call make, const std::string& call) {
  watch().now(call);
  require_ok(make(), call);
}

// The same for a call with inputs in plugin.toml's shapes, which may be none of the component's: Skipped.
inline void require_taken(int32_t status, const std::string& call) {
  if (status == KINORA_ERROR_INVALID || status == KINORA_ERROR_UNSUPPORTED)
    throw Skipped{call + ": " + last_message() + "; give its options with --set NAME=VALUE"};
  require_ok(status, call);
}

// An instance. Throws Skipped with the reason of create().
template <class Table>
class TrialInstance {
 public:
  // more: what create() takes besides, such as a mesh.
  template <class... More>
  TrialInstance(const PluginTrial& t, const core::Options& options, More... more)
      : api(t.table<Table>()),
        self((t.now("create()"), api.create(&watching_host(), options.abi(), more...))) {
    if (!self) throw Skipped{"create(): " + last_message() + "; give its options with --set NAME=VALUE"};
  }
  TrialInstance(const TrialInstance&) = delete;
  TrialInstance& operator=(const TrialInstance&) = delete;
  ~TrialInstance() {
    watch().now("destroy()");
    api.destroy(self);
  }

  const Table& api;
  void* const self;
};

}  // namespace kinora
