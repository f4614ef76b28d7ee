#include "core/workers/environment.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <unistd.h>

namespace kinora::core {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 17> kNames = {"PATH",
                                                     "HOME",
                                                     "USER",
                                                     "LOGNAME",
                                                     "SHELL",
                                                     "LANG",
                                                     "LANGUAGE",
                                                     "TZ",
                                                     "TMPDIR",
                                                     "TMP",
                                                     "TEMP",
                                                     "LD_LIBRARY_PATH",
                                                     "LD_PRELOAD",
                                                     "GLIBC_TUNABLES",
                                                     "SSL_CERT_FILE",
                                                     "SSL_CERT_DIR",
                                                     "LLVM_PROFILE_FILE"};
constexpr std::array<std::string_view, 16> kBeginnings = {
    "LC_",     "KINORA_", "XDG_",    "OMP_",  "GOMP_",    "KMP_",  "MKL_",  "OPENBLAS_",
    "MALLOC_", "CUDA_",   "NVIDIA_", "TORCH", "PYTORCH_", "ASAN_", "TSAN_", "UBSAN_"};
// Words in the names of variables that contain secrets.
constexpr std::array<std::string_view, 5> kSecret = {"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"};
constexpr std::array<std::string_view, 8> kProxies = {"http_proxy", "https_proxy", "all_proxy", "no_proxy",
                                                      "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"};

template <size_t N>
bool is_among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_plain(std::string_view name) {
  if (is_among(kNames, name)) return true;
  const auto begins = [&](std::string_view with) { return name.starts_with(with); };
  const auto holds = [&](std::string_view word) { return name.find(word) != name.npos; };
  return std::any_of(kBeginnings.begin(), kBeginnings.end(), begins) &&
         std::none_of(kSecret.begin(), kSecret.end(), holds);
}

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

}  // namespace

std::vector<std::string> worker_environment(const json& stage_options) {
  std::set<std::string, std::less<>> asked;
  for (const auto& [name, value] : stage_options.items())
    if (name.ends_with("_env") && value.is_string()) asked.insert(value.get<std::string>());
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry)
    if (const auto name = name_of(*entry); is_plain(name) || asked.contains(name)) out.emplace_back(*entry);
  const json lent = storage_environment();
  for (const auto& [name, value] : lent.items())
    if (!asked.contains(name)) out.push_back(name + "=");
  return out;
}

json storage_environment() {
  json out = json::object();
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry, name = name_of(text);
    if (name.size() < text.size() && (name.starts_with("AWS_") || is_among(kProxies, name)))
      out[std::string(name)] = std::string(text.substr(name.size() + 1));
  }
  return out;
}

bool needs_storage(std::string_view uri) {
  const size_t at = uri.find("://");
  const std::string_view scheme = uri.substr(0, at == uri.npos ? 0 : at);
  return !scheme.empty() && scheme != "file" && scheme.find_first_of("/ \n") == scheme.npos;
}

bool names_storage(const json& stage_options) {
  return std::any_of(stage_options.begin(), stage_options.end(), [](const json& value) {
    if (value.is_array() || value.is_object()) return names_storage(value);
    return value.is_string() && !value.get_ref<const std::string&>().starts_with("http") &&
           needs_storage(value.get_ref<const std::string&>());
  });
}

}  // namespace kinora::core
