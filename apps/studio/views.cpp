#include "apps/studio/views.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <unistd.h>

#include <sys/file.h>

#include "apps/studio/edit_journal.hpp"
#include "core/base/facts.hpp"
#include "core/base/regular_stream.hpp"
#include "core/io/file_locks.hpp"
#include "kinora/error.hpp"

namespace kinora::studio {

using nlohmann::json;

json ViewFile::all() const {
  auto in = core::regular_stream(file_);
  std::map<std::string, json> views;
  for (std::string text; in && std::getline(*in, text);) {
    const json line = core::parse_facts(text);
    const std::string name = core::text_in(line, "name"), view = core::text_in(line, "view");
    if (name.empty()) continue;
    views.erase(name);
    if (line.value("view", json()).is_string())
      views[name] = {{"name", name}, {"view", view}, {"where", core::text_in(line, "where")}};
  }
  json out = json::array();
  for (auto& [name, view] : views) out.push_back(std::move(view));
  return out;
}

void ViewFile::save(const json& line) const {
  const int file =
      open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  bool is_saved = file >= 0 && (flock(file, LOCK_EX) == 0 || core::means_no_locks(errno));
  if (is_saved) {  // the newline before it ends a line whose writer was killed
    const std::string text = "\n" + line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    is_saved = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(file) == 0;
  }
  const int why = errno;
  if (file >= 0) close(file);
  if (!is_saved)
    throw Error(KINORA_ERROR_IO,
                file_.string() + ": " + std::strerror(why) + "; the view was not saved. " + remedy_of(why));
}

}  // namespace kinora::studio
