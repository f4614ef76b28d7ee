#include "core/plugin/host.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "core/base/log.hpp"
#include "core/plugin/options.hpp"
#include "core/sample/sample.hpp"

namespace kinora::core {
namespace {

struct LastError {
  int32_t code = KINORA_OK;
  std::string message;
};
LastError& last() {
  thread_local LastError error;
  return error;
}

struct Offer {
  uint32_t minor;
  const void* table;
};

struct Offers {
  std::shared_mutex mutex;
  std::map<std::string, Offer, std::less<>> by_id;
};

// Never destroyed: plugins may call it until the very end of the process.
Offers& offers() {
  static auto* all = [] {
    auto* made = new Offers;
    made->by_id = {{KINORA_INTERFACE_OPTIONS, {KINORA_ABI_MINOR, &options_table()}},
                   {KINORA_INTERFACE_SAMPLES, {KINORA_ABI_MINOR, &samples_table()}}};
    return made;
  }();
  return *all;
}

struct Torch {
  std::recursive_mutex mutex;  // code opened by the loader may itself ask for kinora.tensors/1
  std::function<Status()> load;
  std::optional<Status> answer;
};
Torch& torch() {
  static auto* one = new Torch;
  return *one;
}

const void* offered(std::string_view id, uint32_t minor) {
  auto& all = offers();
  const std::shared_lock lock(all.mutex);
  const auto it = all.by_id.find(id);
  return it != all.by_id.end() && it->second.minor >= minor ? it->second.table : nullptr;
}

// "kinora.workers/1" of "kinora.workers/1-draft.2".
std::string_view without_draft(std::string_view id) { return id.substr(0, id.find("-draft.")); }

std::string why_not_offered(std::string_view id, uint32_t minor) {
  auto& all = offers();
  const std::shared_lock lock(all.mutex);
  for (const auto& [other, offer] : all.by_id)
    if (other != id && without_draft(other) == without_draft(id))
      return fmt::format("this Kinora has {}, not {}; build the plugin again with this Kinora's SDK", other,
                         id);
  return fmt::format("this Kinora does not offer {} in minor version {}; a newer one may", id, minor);
}

// Called by plugins: no exception may escape. If memory for a message runs out, the message is lost but its
// code is kept.
void set_error(const kinora_host*, int32_t code, const char* message) {
  last().code = code;
  try {
    // libtorch errors of a pinned plugin contain a stack trace.
    last().message = message ? message : "";
    if (const auto trace = last().message.find("\nException raised from "); trace != std::string::npos)
      last().message.resize(trace);
  } catch (...) {
    last().message.clear();
  }
}

kinora_str last_error(const kinora_host*) { return str(last().message); }

const void* get_interface(const kinora_host*, const char* id, uint32_t minor) {
  if (!id) return nullptr;
  const void* table = nullptr;
  guard([&] {
    table = offered(id, minor);
    if (!table && std::string_view(id).starts_with("kinora.tensors/")) {
      or_throw(ensure_torch());
      table = offered(id, minor);
    }
    if (!table) throw Error(KINORA_ERROR_UNSUPPORTED, why_not_offered(id, minor));
  });
  return table;
}

void log_message(const kinora_host*, int32_t level, const char* message) {
  guard([&] { log_line(level, message ? message : ""); });
}

// Plugins may start the message with their id or leave that to the host.
std::string named(std::string_view id, const std::string& message) {
  return message.starts_with(id) ? message : fmt::format("{}: {}", id, message);
}

}  // namespace

const kinora_host& core_host() {
  static const kinora_host host{sizeof(kinora_host), KINORA_ABI_MAJOR, KINORA_ABI_MINOR, 0,
                                set_error,           last_error,       get_interface,    log_message};
  return host;
}

void register_interface(std::string_view id, uint32_t minor, const void* table) {
  auto& all = offers();
  const std::unique_lock lock(all.mutex);
  all.by_id.emplace(std::string(id), Offer{minor, table});
}

void set_torch_loader(std::function<Status()> load) {
  const std::lock_guard lock(torch().mutex);
  torch().load = std::move(load);
  torch().answer.reset();
}

Status ensure_torch() {
  auto& t = torch();
  const std::lock_guard lock(t.mutex);
  if (t.answer) return *t.answer;
  if (!t.load)
    return fail(KINORA_ERROR_UNSUPPORTED, "this program offers no libtorch; use the program kinora");
  t.answer = Status();  // calls from inside the loader see what is registered so far
  try {
    t.answer = t.load();
  } catch (const std::exception& e) {
    t.answer = fail(KINORA_ERROR_FAILED, "libtorch: {}", e.what());
  }
  return *t.answer;
}

namespace {
std::atomic<void (*)(std::string_view)> then_do = nullptr;
}  // namespace

void after_calls(void (*then)(std::string_view who)) { then_do = then; }

void after_call(std::string_view who) {
  if (const auto then = then_do.load(std::memory_order_relaxed)) then(who);
}

void forget_error() { last() = {}; }

Failure take_error(std::string_view what) {
  LastError error = std::exchange(last(), {});
  if (!error.message.empty())
    return {error.code < 0 ? error.code : KINORA_ERROR_FAILED, std::move(error.message)};
  return fail(KINORA_ERROR_FAILED, "{}: failed without a message", what);
}

void* made(const std::function<void*()>& create, std::string_view id) {
  forget_error();
  void* instance = nullptr;
  guard([&] { instance = create(); });
  after_call(id);
  if (instance) return forget_error(), instance;
  const Failure why = take_error("create");
  throw Error(why.code, named(id, why.message));
}

Status from_abi(int32_t status, std::string_view what) {
  after_call(what);
  LastError error = std::exchange(last(), {});
  if (status == KINORA_OK) return {};
  if (status > KINORA_OK || status < KINORA_ERROR_REFUSED)  // abi/base.h, rule 11
    return fail(KINORA_ERROR_FAILED, "{}: returned {}, which is no status of this Kinora{}{}", what, status,
                error.message.empty() ? "" : ": ", error.message);
  if (error.code == status && !error.message.empty()) return Failure{status, std::move(error.message)};
  return fail(status, "{}: failed with status {} and no message", what, status);
}

void called(int32_t status, std::string_view id) {
  if (status == KINORA_OK) return after_call(id), forget_error();
  if (status == KINORA_SIGNAL_STOP)
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("{} returned KINORA_SIGNAL_STOP, which only calls of a context may", id));
  const Failure failure = from_abi(status, id).failure();
  throw Error(failure.code, named(id, failure.message));
}

}  // namespace kinora::core

extern "C" const kinora_host* kinora_core_host() { return &kinora::core::core_host(); }
