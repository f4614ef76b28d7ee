#include "core/plugin/library.hpp"

#include <algorithm>
#include <atomic>
#include <dlfcn.h>
#include <link.h>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <boost/dll/shared_library.hpp>

#include "core/base/paths.hpp"
#include "core/base/program_output.hpp"
#include "core/build_info.hpp"
#include "core/plugin/elf.hpp"
#include "core/plugin/host.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// A copy of dlerror's text, and what to do about it.
std::string explain(const fs::path& library, const std::string& text) {
  const auto missing = text.find(": cannot open shared object file");
  if (missing != text.npos && !text.starts_with(library.string())) {
    const auto name = text.substr(0, missing);
    return fmt::format("requires {}, which is not installed ({}); {}", name, text, remedy_for(name));
  }
  const std::string place = library.string() + ": ";
  const std::string said = text.starts_with(place) ? text.substr(place.size()) : text;
  if (said.find("static TLS") != said.npos)
    return said +
           "; it has too many thread-local variables for a library that is opened later: build it with "
           "-ftls-model=global-dynamic";
  if (said.find("undefined symbol") != said.npos)
    return said +
           "; a source file or a library (-l) is missing where it is linked, or it was built against other "
           "versions of its libraries: build it again here";
  return said;
}

struct Opened {
  std::unique_ptr<boost::dll::shared_library> library;
  Result<const kinora_plugin*> plugin;
};

Opened open_now(const fs::path& path) {
  auto library = std::make_unique<boost::dll::shared_library>();
  boost::dll::fs::error_code error;
  dlerror();
  library->load(path, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local, error);
  if (error) {
    const char* text = dlerror();
    return {nullptr, fail(KINORA_ERROR_UNSUPPORTED, "{}: {}", path.string(),
                          explain(path, text ? text : error.message()))};
  }
  Result<const kinora_plugin*> plugin =
      fail(KINORA_ERROR_INVALID, "{}: exports no function {}; a plugin's source ends in KINORA_PLUGIN(...)",
           path.string(), KINORA_PLUGIN_ENTRY);
  if (library->has(KINORA_PLUGIN_ENTRY))
    plugin =
        enter(library->get<const kinora_plugin*(const kinora_host*)>(KINORA_PLUGIN_ENTRY), path.string());
  after_call(path.string());
  return {std::move(library), std::move(plugin)};
}

}  // namespace

Result<const kinora_plugin*> enter(kinora_plugin_entry_fn entry, const std::string& what) {
  forget_error();
  try {
    const kinora_plugin* plugin = entry(&core_host());
    if (plugin) return plugin;
    const Failure why = take_error("its entry");
    return fail(why.code, "{}: cannot be used here: {}", what, why.message);
  } catch (const std::exception& e) {
    return fail(KINORA_ERROR_FAILED, "{}: its entry threw: {}", what, e.what());
  } catch (...) {  // also an exception of another C++ library
    return fail(KINORA_ERROR_FAILED, "{}: its entry threw an exception of unknown type", what);
  }
}

Result<const kinora_plugin*> open_library(const fs::path& library) {
  // Never destroyed, so never closed.
  static auto* mutex = new std::recursive_mutex;  // an entry may use another plugin, a storage
  static auto* all = new std::map<fs::path, Opened>;
  std::error_code error;
  const fs::path path = fs::canonical(library, error);
  if (error) return fail(KINORA_ERROR_NOT_FOUND, "{}: {}", library.string(), error.message());
  const std::lock_guard lock(*mutex);
  auto it = all->find(path);
  if (it == all->end()) it = all->emplace(path, open_now(path)).first;
  return it->second.plugin;
}

namespace {
std::atomic<const OpenedPlugin*> last_opened = nullptr;
}  // namespace

const OpenedPlugin* opened_plugins() { return last_opened; }

void note_opened(const kinora_plugin& plugin) {
  auto* one = new OpenedPlugin{&plugin, last_opened};
  while (!last_opened.compare_exchange_weak(one->before, one)) {
  }
}

namespace {

// The Debian 12 package or the wheel that contains a library that a plugin may need.
struct Package {
  std::string_view library, package;
};
constexpr std::string_view torch_package =
    "libtorch (pip install torch==" KINORA_TORCH_VERSION " in an active Python environment)";
constexpr Package packages[] = {
    {"libtorch", torch_package},
    {"libc10", torch_package},
    {"libav", "FFmpeg (apt install ffmpeg)"},
    {"libsw", "FFmpeg (apt install ffmpeg)"},
    {"libhdf5", "HDF5 (apt install libhdf5-103-1)"},
    {"libarchive", "libarchive (apt install libarchive13)"},
    {"libsqlite3", "SQLite (apt install libsqlite3-0)"},
    {"libcurl", "libcurl (apt install libcurl4)"},
    {"libutf8proc", "utf8proc (apt install libutf8proc2)"},
    {"libcuda.", "the NVIDIA driver"},
    {"libcudart", "the CUDA 13 runtime (pip install nvidia-cuda-runtime)"},
    {"libcublas", "cuBLAS of CUDA 13 (pip install nvidia-cublas)"},
    {"libcudnn", "cuDNN 9 (pip install nvidia-cudnn-cu13)"},
    {"libnccl", "NCCL (pip install nvidia-nccl-cu13)"},
    {"libubsan", "GCC's runtime of the sanitizer (apt install libubsan1), or build the plugin without it"},
};

// The dynamic linker's default folders, without /etc/ld.so.conf, which only the linker itself reads.
constexpr const char* system_folders[] = {
#if defined(__x86_64__)
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
#endif
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib"};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

struct Places {
  std::vector<fs::path> folders;

  void add(fs::path folder) {
    if (std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(std::move(folder));
  }
  // An empty entry is the current folder, as for the dynamic linker; one with $LIB or $PLATFORM is left to the linker.
  void add_list(std::string_view list, const fs::path& origin, std::string_view separators) {
    if (list.empty()) return;
    for (size_t begin = 0; begin <= list.size();) {
      const size_t end = std::min(list.find_first_of(separators, begin), list.size());
      std::string entry(list.substr(begin, end - begin));
      for (const std::string_view token : {"${ORIGIN}", "$ORIGIN"})
        for (size_t at = 0; (at = entry.find(token, at)) != entry.npos; at += origin.string().size())
          entry.replace(at, token.size(), origin.string());
      if (entry.find('$') == entry.npos) add(entry.empty() ? "." : entry);
      begin = end + 1;
    }
  }
  void add_run_path(const fs::path& library, std::string_view run_path) {
    std::error_code error;
    const fs::path real = fs::canonical(library, error);
    add_list(run_path, (error ? library : real).parent_path(), ":");
  }
  bool has(const std::string& name) const {
    return std::any_of(folders.begin(), folders.end(), [&](const fs::path& f) { return is_file(f / name); });
  }
};

// Whoever may add or change a library in a folder of the run path gets it opened with the plugin. For a missing folder
// it checks whether others may create it. A relative folder is another one wherever the program starts.
Status check_run_path(const Places& own, const std::vector<std::string>& names, PassedFolders* passed) {
  for (const auto& folder : own.folders) {
    if (folder.is_relative())
      return fail(
          KINORA_ERROR_INVALID,
          "its run path leads to {}, wherever that is; build it with absolute folders or $ORIGIN (CMake "
          "leaves such an entry in the build tree: set BUILD_WITH_INSTALL_RPATH)",
          folder == "." ? "the current folder" : "the relative folder " + folder.string());
    for (bool told = false; const auto& name : names) {
      if (!is_file(folder / name) && std::exchange(told, true)) continue;
      if (const auto why = why_untrusted(folder / name, passed); !why.empty())
        return fail(KINORA_ERROR_INVALID, "its run path leads to {}: {}; or build it with another run path",
                    folder.string(), why);
    }
  }
  return {};
}

bool is_in_process(const std::string& name) {
  const auto has_name = [](dl_phdr_info* library, size_t, void* wanted) {
    const std::string_view path = library->dlpi_name;
    return path.substr(path.rfind('/') + 1) == *static_cast<const std::string*>(wanted) ? 1 : 0;
  };
  return dl_iterate_phdr(has_name, const_cast<std::string*>(&name)) != 0;
}

// The dynamic linker of this program; "" if it has none.
std::string dynamic_linker() {
  std::string out;
  const auto first = [](dl_phdr_info* program, size_t, void* to) {
    for (int i = 0; i < program->dlpi_phnum; ++i)
      if (const auto& part = program->dlpi_phdr[i]; part.p_type == PT_INTERP)
        *static_cast<std::string*>(to) = reinterpret_cast<const char*>(program->dlpi_addr + part.p_vaddr);
    return 1;
  };
  dl_iterate_phdr(first, &out);
  return out;
}

bool is_of_libtorch(const std::string& library) {
  return library.starts_with("libtorch") || library.starts_with("libc10");
}

// Libraries that must not come into the process with a plugin. A stable plugin's own libtorch would be opened
// instead of the host's, and the runtime of these sanitizers ends the process unless it was there first.
std::string why_refused(const std::string& library, Tier tier) {
  if (tier == Tier::stable && is_of_libtorch(library))
    return fmt::format(
        "requires {}, which a plugin of tier stable may not; take tier pinned, or link nothing of "
        "libtorch: kinora.tensors/1 offers it",
        library);
  for (const auto* sanitizer : {"libasan.", "liblsan.", "libtsan."})
    if (library.starts_with(sanitizer) && !is_in_process(library))
      return fmt::format(
          "requires {}, which must be in the process first; set LD_PRELOAD={} for the program, or build "
          "the plugin without the sanitizer",
          library, library);
  return "";
}

// The linker's report on everything that a library needs, one line each: "\tlibfoo.so.3 => not found". Runs
// in a separate process that executes none of the code (ld.so(8), LD_TRACE_LOADED_OBJECTS); "" if it fails.
std::string linker_says(const fs::path& library) {
  const std::string linker = dynamic_linker();
  return linker.empty()
             ? ""
             : output_of({"env", "LD_TRACE_LOADED_OBJECTS=1", linker, fs::absolute(library).string()});
}

}  // namespace

std::string remedy_for(std::string_view library) {
  for (const auto& p : packages)
    if (library.starts_with(p.library)) return fmt::format("install {}", p.package);
  return fmt::format(
      "install the package that contains it (apt-file search {}), or add its folder to LD_LIBRARY_PATH",
      library);
}

Status check_needed(const fs::path& library, Tier tier, const HostFacts& host, PassedFolders* passed) {
  const auto needs = read_needs(library);
  if (!needs) return needs.failure();
  for (const auto& name : needs->libraries)
    if (auto why = why_refused(name, tier); !why.empty())
      return Failure{KINORA_ERROR_UNSUPPORTED, std::move(why)};
  Places own, usual;
  own.add_run_path(library, needs->run_path);
  if (auto s = check_run_path(own, needs->libraries, passed); !s) return s;
  if (tier != Tier::stable && !host.torch_folder.empty()) {
    own.add(host.torch_folder);
    own.add(host.torch_folder / "../../nvidia/cu13/lib");  // libtorch loads CUDA's libraries from there
  }
  if (tier != Tier::stable && !host.why_no_torch.empty() && !is_in_process("libtorch_cpu.so") &&
      std::ranges::any_of(needs->libraries, is_of_libtorch))
    return fail(KINORA_ERROR_UNSUPPORTED, "{}", host.why_no_torch);
  usual.add_list(environment("LD_LIBRARY_PATH"), executable_folder(), ":;");
  for (const auto* folder : system_folders) usual.add(folder);
  std::vector<std::string> unseen;
  for (const auto& name : needs->libraries)
    if (!is_in_process(name) && !own.has(name) && !usual.has(name)) unseen.push_back(name);
  if (unseen.empty()) return {};
  std::string missing;
  for (const std::string said = linker_says(library); const auto& name : unseen)
    if (said.find(fmt::format("\t{} => not found", name)) != said.npos)
      missing += fmt::format("{}requires {}, which is not installed; {}", missing.empty() ? "" : "; ", name,
                             remedy_for(name));
  if (!missing.empty()) return fail(KINORA_ERROR_UNSUPPORTED, "{}", missing);
  return {};
}

}  // namespace kinora::core
