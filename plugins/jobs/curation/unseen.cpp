#include "plugins/jobs/curation/unseen.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <unordered_map>

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "core/base/counted.hpp"
#include "core/io/wildcard.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kNotThere = " is not there", kEmpty = " is empty", kUnreadable = " cannot be read: ";

// Whether an entry is contents: hidden files, and what file systems put into their roots, are not.
bool is_something(std::string_view name) { return !name.starts_with('.') && name != "lost+found"; }

// Why the folder cannot be used; empty: it has contents.
std::string look_into(const std::string& folder) {
  DIR* open = ::opendir(folder.c_str());
  if (!open && (errno == ENOENT || errno == ENOTDIR)) return folder + std::string(kNotThere);
  if (!open) return fmt::format("{}{}{}", folder, kUnreadable, std::strerror(errno));
  bool holds = false;
  errno = 0;
  while (const dirent* entry = holds ? nullptr : ::readdir(open)) holds = is_something(entry->d_name);
  const int error = errno;
  ::closedir(open);
  if (!holds && error != 0) return fmt::format("{}{}{}", folder, kUnreadable, std::strerror(error));
  return holds ? "" : folder + std::string(kEmpty);
}

bool lies_below(const std::string& url, const std::string& folder) {
  return url.starts_with(folder) && (folder.ends_with('/') || url.substr(folder.size()).starts_with('/'));
}

bool matches_url(const std::string& pattern, const std::string& url) {
  const auto [folder, rest] = split_pattern(pattern);
  return url.starts_with(folder) && matches(rest, std::string_view(url).substr(folder.size()));
}

}  // namespace

Unseen::Unseen(const std::vector<Input>& found) {
  for (const auto& input : found)
    if (!input.error.empty() && !input.url.empty()) (is_pattern(input.url) ? patterns_ : in_error_).push_back(&input);
}

// A missing folder below a mount point without its disk is reported as the mount point's problem.
std::string Unseen::of_folder(const std::string& folder) {
  if (const auto at = folders_.find(folder); at != folders_.end()) return at->second;
  std::string why = look_into(folder);
  const std::string above = fs::path(folder).parent_path().string();
  if (why.ends_with(kNotThere) && above != folder && !above.empty())
    if (const std::string of_above = of_folder(above); of_above.ends_with(kNotThere) || of_above.ends_with(kEmpty)) why = of_above;
  return folders_[folder] = why;
}

std::set<const Input*> Unseen::stand_for(const std::string& url) {
  const std::string folder = url.substr(0, url.rfind('/') + 1);
  const auto [at, is_new] = errors_.try_emplace(folder);
  if (is_new)
    for (const Input* input : in_error_)
      if (lies_below(folder, input->url)) at->second.insert(input);
  std::set<const Input*> out = at->second;
  for (const Input* input : patterns_)
    if (matches_url(input->url, url)) out.insert(input);
  return out;
}

std::string Unseen::because(const std::string& url) {
  const auto in_error = stand_for(url);
  std::string why;
  if (!is_remote(url)) why = of_this_machine(url, in_error);
  else if (!in_error.empty()) why = (*in_error.begin())->url + " has no video or cannot be listed";
  if (!why.empty()) in_vain_.insert(in_error.begin(), in_error.end());
  return why;
}

std::string Unseen::of_this_machine(const std::string& url, const std::set<const Input*>& in_error) {
  const auto uri = parse_uri(url);
  const std::string path = uri ? uri->path : url, folder = fs::path(path).parent_path().string();
  for (const Input* input : in_error)  // it may be usable all the same
    if (const std::string why = of_folder(input->url); why.find(kUnreadable) != why.npos) return why;
  const std::string why = of_folder(folder.empty() ? "." : folder);
  if (!why.empty() && !why.ends_with(kEmpty)) return why;
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return "";
  if (errno != ENOENT) return fmt::format("{} cannot be accessed: {}", path, std::strerror(errno));
  return ::lstat(path.c_str(), &info) == 0 ? path + " is a link to a missing file" : why;
}

Recalled recall(std::vector<Input>& inputs, const std::vector<KnownFilm>& known, bool drop_unseen) {
  Recalled out;
  std::unordered_map<std::string, std::vector<size_t>> of_url;  // index of the first input last
  if (!known.empty())
    for (size_t i = inputs.size(); i-- > 0;) of_url[inputs[i].url].push_back(i);
  Unseen unseen(inputs);
  std::optional<size_t> last;
  for (const auto& film : known) {
    const auto at = of_url.find(film.url);
    const bool is_named = at != of_url.end() && !at->second.empty();
    Input* input = nullptr;
    if (is_named) {
      last = at->second.back();
      at->second.pop_back();
      input = &inputs[*last];
      input->key_before = film.key;
      if (!input->is_unseen() || film.identity == input->identity() || !film.identity.starts_with(input->named() + "-")) continue;
    }
    if (!film.is_worth_keeping() || (!is_named && drop_unseen)) continue;
    std::string why = unseen.because(film.url);
    if (!is_named && why.empty()) continue;
    if (why.empty()) why = film.url + (is_remote(film.url) ? " cannot be listed" : " is not there");
    if (!is_named) {
      out.unseen.push_back({{.url = film.url, .key_before = film.key}, last});
      input = &out.unseen.back().input;
    }
    input->identity_before = film.identity;
    input->done_before = film.done;
    ++out.because[why];
    if (out.first.empty()) out.first = film.url;
  }
  out.in_vain.resize(inputs.size());
  for (const Input* input : unseen.in_vain())
    out.in_vain[static_cast<size_t>(input - inputs.data())] = true;
  return out;
}

std::vector<Input> put_in(std::vector<Input> inputs, const Recalled& recalled) {
  std::vector<Input> out;
  out.reserve(inputs.size() + recalled.unseen.size());
  std::multimap<size_t, const Input*> follow;
  for (const auto& film : recalled.unseen) follow.emplace(film.after ? *film.after + 1 : 0, &film.input);
  for (size_t i = 0; i <= inputs.size(); ++i) {
    for (auto [at, end] = follow.equal_range(i); at != end; ++at) out.push_back(*at->second);
    if (i < inputs.size() && !recalled.in_vain[i]) out.push_back(std::move(inputs[i]));
  }
  return out;
}

std::string unseen_line(const LeftOut& out) {
  int64_t films = 0;
  for (const auto& [why, count] : out.unseen) films += count;
  const char* them = films == 1 ? "it" : "them";
  const std::string more = out.unseen.size() > 1 ? fmt::format(", and {} more", out.unseen.size() - 1) : "";
  const std::string remedy = out.is_any_unnamed ? fmt::format("; unseen = \"drop\" discards {} for good", them) : "";
  return fmt::format("{} unavailable now, {} the first; the results of {} are kept ({}{}{})",
                     counted(films, "video is", "videos are"), out.first_unseen, them, out.unseen.begin()->first, more, remedy);
}

}  // namespace kinora::core
