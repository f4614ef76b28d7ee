#include "apps/studio/film_places.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace kinora::studio {
namespace {

using Films = std::vector<const Clip*>;

// The last `parts` components of an address; all of it if it has fewer.
std::string_view tail(std::string_view url, size_t parts) {
  size_t at = url.size();
  while (parts-- > 0 && at != url.npos) at = at == 0 ? url.npos : url.rfind('/', at - 1);
  return at == url.npos ? url : url.substr(at + 1);
}

std::string_view stem(std::string_view url) {
  const auto name = tail(url, 1);
  return name.substr(0, name.rfind('.'));
}

void tell_apart(const Films& films, std::unordered_map<std::string, std::string>& out) {
  size_t longest = 2;
  for (const Clip* film : films)
    longest = std::max<size_t>(longest, static_cast<size_t>(std::ranges::count(film->url, '/')) + 1);
  size_t parts = 2;
  const auto differ = [&] {
    std::set<std::string_view> tails;
    return std::ranges::all_of(films,
                               [&](const Clip* film) { return tails.insert(tail(film->url, parts)).second; });
  };
  while (parts < longest && !differ()) ++parts;
  for (const Clip* film : films) out[film->id] = tail(film->url, parts);
}

}  // namespace

std::unordered_map<std::string, std::string> film_places(const Catalogue& catalogue) {
  std::map<std::pair<size_t, std::string_view>, Films> by_name;
  for (const Clip& clip : catalogue.clips)
    if (clip.is_film && !clip.url.empty()) by_name[{clip.job, stem(clip.url)}].push_back(&clip);
  std::unordered_map<std::string, std::string> out;
  for (const auto& [name, films] : by_name)
    if (films.size() > 1) tell_apart(films, out);
  return out;
}

}  // namespace kinora::studio
