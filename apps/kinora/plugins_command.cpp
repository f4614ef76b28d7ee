#include <algorithm>
#include <iostream>
#include <unistd.h>

#include <boost/program_options.hpp>

#include "apps/kinora/command.hpp"
#include "apps/kinora/commands.hpp"
#include "apps/kinora/plugins_format.hpp"
#include "apps/validate/validate.hpp"
#include "core/base/suggest.hpp"
#include "core/base/terminal.hpp"
#include "core/io/atomic_file.hpp"
#include "core/plugin/kinds.hpp"
#include "core/plugin/plugins_lock.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;

constexpr const char* kPluginsHelp = R"(
  list       lists every component: its plugin, version, ABI (draft: its kind's interface may still change,
             and then only a plugin built anew works), tier and state (ready, loaded, disabled, shadowed);
             --ids: only the ids. KIND: only the components of that kind; list job: the kinds of jobs.
             `kinora plugins` alone is `kinora plugins list`
  inspect    describes one component: tensors, options, defaults, ranges; job/train: a kind of job.
             An ID is KIND/NAME, for example storage/s3; NAME alone is enough if only one component has it
  validate   proves a plugin, or every plugin below FOLDER: that this host can use it, and that its components
             do what their interfaces promise. Each check runs in a process of its own, for at most S seconds
             (default 60); kinora plugins validate --help lists the checks
  manifest   prints the plugin.toml that describes the library as it is; --check compares FILE with it
  new        creates a plugin of KIND to start from in folder DIR (default NAME), which must be new or empty;
             --tier pinned: a model on libtorch's C++ API instead of the C ABI; KIND job: a kind of job, of
             tier host; --lang c: a stage in C11
  lock       writes the SHA-256 of every plugin's library and manifest to FILE (default plugins.lock). While a
             plugins.lock is next to a run file, or --plugins-lock FILE is before a command, a plugin with
             other files, or one that is not in it, is not opened
  check-parallel  checks whether a strategy on N ranks of this machine (default 2) computes what one process
             does: output, loss and every gradient of a small model in float64, within 1e-10; exit code 1:
             prints what differs and the rule that is probably broken

Plugins are searched in --plugins DIR (before the command), KINORA_PLUGIN_PATH, ~/.local/share/kinora/plugins,
and lib/kinora/plugins of the installation. If several plugins have the same name, the first one is used.
)";

// The flags --json, --markdown and --ids, and positional arguments.
struct Shape {
  bool as_json = false, as_markdown = false, as_ids = false;
  std::vector<std::string> words;
};

Flags inspect_id_flags() {
  Flags out;
  out.add_options()("json", "")("markdown", "");
  return out;
}

Flags list_flags() {
  Flags out = inspect_id_flags();
  out.add_options()("ids", "");
  return out;
}

Flags lock_flags() { return Flags(); }

Shape parse_shape(const Arguments& arguments, Flags known) {
  known.add_options()("word", po::value<std::vector<std::string>>());
  po::positional_options_description words;
  words.add("word", -1);
  po::variables_map values;
  po::store(po::command_line_parser(arguments).options(known).positional(words).run(), values);
  Shape out{values.count("json") > 0, values.count("markdown") > 0, values.count("ids") > 0, {}};
  if (values.count("word")) out.words = values["word"].as<std::vector<std::string>>();
  return out;
}

std::string dumped(const core::json& j) {
  return j.dump(2, ' ', false, core::json::error_handler_t::replace) + "\n";
}

// Resolves a word to an id: an id stays as it is, a bare name becomes the id of the only component that has
// it.
core::Result<std::string> id_of(const std::string& word, const std::vector<Row>& list) {
  if (word.find('/') != word.npos) return word;
  std::vector<std::string> named, in_plugin;
  for (const auto& row : list) {
    if (!row.component || state_of(row) == "shadowed") continue;
    const bool known = std::find(named.begin(), named.end(), row.component->id) != named.end();
    if (row.component->name == word && !known) named.push_back(row.component->id);
    if (row.plugin.spec.name == word) in_plugin.push_back(row.component->id);
  }
  if (named.size() == 1) return named.front();
  if (named.size() > 1)
    return core::fail(KINORA_ERROR_INVALID, "'{}' is ambiguous; give one of {}", word,
                      fmt::join(named, ", "));
  if (!in_plugin.empty())
    return core::fail(KINORA_ERROR_INVALID, "'{}' is a plugin; give one of its components: {}", word,
                      fmt::join(in_plugin, ", "));
  return word;
}

}  // namespace

int plugins_list(core::Runtime& runtime, const Arguments& arguments) {
  const Shape shape = parse_shape(arguments, list_flags());
  if (shape.words.size() > 1)
    return complain(kUsage, "plugins list: expected one kind at most; see kinora plugins --help");
  const std::string kind = shape.words.empty() ? "" : shape.words[0];
  if (!kind.empty() && !core::find_kind(kind)) {
    std::vector<std::string> names;
    for (const auto& k : core::kinds()) names.emplace_back(k.name);
    return complain(
        kUsage, fmt::format("unknown kind '{}'{}", kind, core::did_you_mean_or_list(kind, names, "kinds")));
  }
  const auto plugins = runtime.registry().plugins();
  const auto list = rows(plugins, kind);
  if (shape.as_json) {
    std::cout << dumped(list_json(list));
  } else if (shape.as_markdown) {
    std::cout << list_markdown(list);
  } else if (shape.as_ids) {
    for (const auto& row : list)
      if (row.component) std::cout << row.component->id << "\n";
  } else {
    std::cout << list_text(list, runtime.registry().notices(), core::columns_of(STDOUT_FILENO, 0));
  }
  return kDone;
}

int plugins_inspect(core::Runtime& runtime, const Arguments& arguments) {
  const Shape shape = parse_shape(arguments, inspect_id_flags());
  if (shape.words.size() != 1)
    return complain(kUsage, "plugins inspect needs one ID, for example sampler/edm-heun or storage/s3");
  const auto plugins = runtime.registry().plugins();
  const auto list = rows(plugins, "");
  const auto id = id_of(shape.words[0], list);
  if (!id) return complain(kUsage, id.failure().message);
  // A disabled component is shown too, with the reason, if no other component has its id.
  const auto is_it = [&](const Row& r) {
    return r.component && r.component->id == *id && state_of(r) != "shadowed";
  };
  auto row = std::find_if(list.begin(), list.end(),
                          [&](const Row& r) { return is_it(r) && state_of(r) != "disabled"; });
  if (row == list.end()) row = std::find_if(list.begin(), list.end(), is_it);
  if (row == list.end()) return complain(kUsage, runtime.registry().find(*id).failure().message);
  if (shape.as_json) {
    std::cout << dumped(inspect_json(*row));
  } else {
    std::cout << (shape.as_markdown ? inspect_markdown(*row) : inspect_text(*row));
  }
  return kDone;
}

int plugins_lock(core::Runtime& runtime, const Arguments& arguments) {
  const Shape shape = parse_shape(arguments, lock_flags());
  if (shape.words.size() > 1)
    return complain(kUsage, "plugins lock: expected one file at most; see kinora plugins --help");
  const std::string file = shape.words.empty() ? core::kPluginsLock : shape.words[0];
  const auto lock = core::PluginsLock::of(runtime.registry().plugins());
  core::or_throw(core::write_file_atomically(file, lock.text()));
  std::cout << file << ": " << lock.size() << (lock.size() == 1 ? " plugin\n" : " plugins\n");
  return kDone;
}

std::span<const Subcommand> plugins_parts() {
  static constexpr Subcommand parts[] = {
      {"list", "[KIND]", list_flags, plugins_list},
      {"inspect", "ID", inspect_id_flags, plugins_inspect},
      {"validate", "FILE.so|FOLDER", validate_flags, plugins_validate},
      {"manifest", "FILE.so", manifest_flags, plugins_manifest},
      {"new", "KIND NAME [DIR]", new_flags, plugins_new},
      {"lock", "[FILE]", lock_flags, plugins_lock},
      {"check-parallel", "ID", check_parallel_flags, plugins_check_parallel}};
  return parts;
}

int plugins_command(core::Runtime& runtime, std::vector<std::string> arguments) {
  for (const auto& a : arguments) {
    if ((a != "--help" && a != "-h") || arguments[0] == "validate") continue;
    const char* before = "usage: ";
    for (const auto& part : plugins_parts()) {
      const std::string call = fmt::format("kinora plugins {} {}", part.name, part.takes);
      std::cout << before << usage_of(call, part.flags()) << "\n";
      before = "       ";
    }
    std::cout << wrapped_prose(kPluginsHelp);
    return kDone;
  }
  if (arguments.empty() || arguments[0].starts_with("-")) arguments.insert(arguments.begin(), "list");
  const std::string name = arguments[0];
  arguments.erase(arguments.begin());
  std::vector<std::string> names;
  for (const auto& part : plugins_parts()) {
    if (part.name == name) return part.run(runtime, arguments);
    names.emplace_back(part.name);
  }
  return complain(kUsage, fmt::format("unknown command 'plugins {}'{}; see kinora plugins --help", name,
                                      core::did_you_mean(name, names)));
}

}  // namespace kinora
