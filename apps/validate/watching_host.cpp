#include "apps/validate/watching_host.hpp"

#include <algorithm>
#include <cstring>

#include "core/plugin/host.hpp"
#include "kinora/abi/options.h"
#include "kinora/abi/sample.h"
#include "kinora/abi/tensor.h"
#include "kinora/abi/workers.h"

namespace kinora {
namespace watching {
namespace {

constexpr unsigned char kMark = 0xA5;

// A table with room behind it, which a later minor would use.
template <class T>
struct Roomy {
  T table;
  unsigned char tail[128];

  explicit Roomy(const T& from) : table(from) {
    table.struct_size = sizeof(T);
    std::memset(tail, kMark, sizeof tail);
  }
  static constexpr uint32_t grown() { return sizeof(T) + sizeof tail; }
  void grow() { table.struct_size = grown(); }
  bool is_intact() const {
    return table.struct_size == grown() &&
           std::all_of(std::begin(tail), std::end(tail), [](unsigned char c) { return c == kMark; });
  }
};

template <class T>
const T& real(const char* id) {
  static const T& table =
      *static_cast<const T*>(core::core_host().get_interface(&core::core_host(), id, KINORA_ABI_MINOR));
  return table;
}
const kinora_samples_api& real_samples() { return real<kinora_samples_api>(KINORA_INTERFACE_SAMPLES); }
const kinora_options_api& real_options() { return real<kinora_options_api>(KINORA_INTERFACE_OPTIONS); }
const kinora_tensors_api& real_tensors() { return real<kinora_tensors_api>(KINORA_INTERFACE_TENSORS); }

// The status, after counting n more references if it is KINORA_OK.
int32_t counted(std::atomic<int64_t>& count, int32_t status, int64_t n = 1) {
  if (status == KINORA_OK) count += n;
  return status;
}

Roomy<kinora_samples_api>& samples() {
  static Roomy<kinora_samples_api> out = [] {
    kinora_samples_api t = real_samples();
    t.create = [](kinora_str key, kinora_sample** to) {
      return counted(watch().samples, real_samples().create(key, to));
    };
    t.clone = [](const kinora_sample* from, kinora_str key, kinora_sample** to) {
      return counted(watch().samples, real_samples().clone(from, key, to));
    };
    t.retain = [](kinora_sample* s) {
      ++watch().samples;
      real_samples().retain(s);
    };
    t.release = [](kinora_sample* s) {
      --watch().samples;
      real_samples().release(s);
    };
    return Roomy<kinora_samples_api>(t);
  }();
  return out;
}

int64_t handles_in(const kinora_value& v) {
  return v.kind == KINORA_VALUE_TENSOR ? 1 : v.kind == KINORA_VALUE_TENSORS ? static_cast<int64_t>(v.n) : 0;
}

int32_t call_op(const char* name, const char* overload, const kinora_value* in, uint64_t n_in,
                kinora_value* out, uint64_t n_out) {
  const int32_t status = real_tensors().call_op(name, overload, in, n_in, out, n_out);
  for (uint64_t i = 0; status == KINORA_OK && i < n_out; ++i) watch().tensors += handles_in(out[i]);
  return status;
}

int32_t grad(const kinora_tensor* of, const kinora_tensor* weights, uint64_t n, const kinora_tensor* in,
             uint64_t n_in, kinora_tensor* out) {
  const int32_t status = real_tensors().grad(of, weights, n, in, n_in, out);
  if (status == KINORA_OK)
    watch().tensors += std::count_if(out, out + n_in, [](kinora_tensor t) { return t != nullptr; });
  return status;
}

Roomy<kinora_tensors_api>& tensors() {
  static Roomy<kinora_tensors_api> out = [] {
    kinora_tensors_api t = real_tensors();
    t.release = [](kinora_tensor h) {
      if (h) --watch().tensors;
      real_tensors().release(h);
    };
    t.retain = [](kinora_tensor h, kinora_tensor* to) {
      return counted(watch().tensors, real_tensors().retain(h, to));
    };
    t.empty = [](const int64_t* shape, int64_t n, int32_t dtype, kinora_tensor like, kinora_tensor* to) {
      return counted(watch().tensors, real_tensors().empty(shape, n, dtype, like, to));
    };
    t.from_dlpack = [](kinora_dl_managed* m, kinora_tensor* to) {
      return counted(watch().tensors, real_tensors().from_dlpack(m, to));
    };
    t.call_op = call_op;
    t.release_value = [](kinora_value* v) {
      watch().tensors -= handles_in(*v);
      real_tensors().release_value(v);
    };
    // autograd_apply returns what the plugin's own forward has made: the count stays.
    t.grad = grad;
    return Roomy<kinora_tensors_api>(t);
  }();
  return out;
}

// Reads one option, unless all are refused, and notes it.
template <class Read>
int32_t option(const char* name, const char* as, Read read) {
  Watch& w = watch();
  int32_t status = KINORA_ERROR_INVALID;
  if (w.options_fail)
    core::core_host().set_error(&core::core_host(), status, "this host refuses every option");
  else
    status = read(real_options());
  const std::lock_guard held(w.lock);
  w.options_read.insert(name);
  if (status != KINORA_OK && w.refused_option.empty())
    w.refused_option = std::string("'") + name + "' as " + as;
  return status;
}

Roomy<kinora_options_api>& options() {
  static Roomy<kinora_options_api> out = [] {
    kinora_options_api t = real_options();
    t.count = [](const kinora_options* o, const char* name, int64_t* to) {
      return option(name, "a list", [=](const auto& api) { return api.count(o, name, to); });
    };
    t.get_int = [](const kinora_options* o, const char* name, int64_t i, int64_t* to) {
      return option(name, "an int", [=](const auto& api) { return api.get_int(o, name, i, to); });
    };
    t.get_float = [](const kinora_options* o, const char* name, int64_t i, double* to) {
      return option(name, "a float", [=](const auto& api) { return api.get_float(o, name, i, to); });
    };
    t.get_string = [](const kinora_options* o, const char* name, int64_t i, kinora_str* to) {
      return option(name, "a string", [=](const auto& api) { return api.get_string(o, name, i, to); });
    };
    t.json = [](const kinora_options* o, kinora_str* to) {
      const int32_t status = option("", "JSON", [=](const auto& api) { return api.json(o, to); });
      const std::lock_guard held(watch().lock);
      watch().all_options_read = true;
      return status;
    };
    return Roomy<kinora_options_api>(t);
  }();
  return out;
}

const void* offered(const kinora_host*, const char* id, uint32_t minor) {
  const kinora_host& core = core::core_host();
  if (watch().offers_nothing) {
    core.set_error(&core, KINORA_ERROR_UNSUPPORTED, "this host offers no interface at all");
    return nullptr;
  }
  // The stages of a check exist in its own process only.
  if (!std::strcmp(id, KINORA_INTERFACE_WORKERS)) {
    core.set_error(&core, KINORA_ERROR_UNSUPPORTED, "kinora plugins validate starts no worker processes");
    return nullptr;
  }
  const void* found = core.get_interface(&core, id, minor);
  if (!found) return nullptr;
  if (!std::strcmp(id, KINORA_INTERFACE_SAMPLES)) return &samples().table;
  if (!std::strcmp(id, KINORA_INTERFACE_OPTIONS)) return &options().table;
  if (!std::strcmp(id, KINORA_INTERFACE_TENSORS)) return &tensors().table;
  return found;
}

Roomy<kinora_host>& host_table() {
  static Roomy<kinora_host> out = [] {
    kinora_host t = core::core_host();
    t.set_error = [](const kinora_host*, int32_t code, const char* text) {
      core::core_host().set_error(&core::core_host(), code, text);
    };
    t.last_error = [](const kinora_host*) { return core::core_host().last_error(&core::core_host()); };
    t.get_interface = offered;
    t.log = [](const kinora_host*, int32_t level, const char* text) {
      core::core_host().log(&core::core_host(), level, text);
    };
    return Roomy<kinora_host>(t);
  }();
  return out;
}

}  // namespace
}  // namespace watching

Watch& watch() {
  static Watch one;
  return one;
}

const kinora_host& watching_host() { return watching::host_table().table; }

void grow_host() {
  watching::host_table().grow();
  watching::samples().grow();
  watching::options().grow();
}

std::string written_table() {
  return !watching::host_table().is_intact() ? "kinora_host"
         : !watching::samples().is_intact()  ? "kinora_samples_api"
         : !watching::options().is_intact()  ? "kinora_options_api"
                                             : "";
}

}  // namespace kinora
