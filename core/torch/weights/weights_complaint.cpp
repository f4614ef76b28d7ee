#include "core/torch/weights/weights_complaint.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include <fmt/ranges.h>

#include "core/base/suggest.hpp"

namespace kinora::core {
namespace {

using Parts = std::vector<std::string>;

Parts parts_of(const std::string& name) {
  Parts out;
  std::istringstream in(name);
  for (std::string part; std::getline(in, part, '.');) out.push_back(part);
  return out;
}

bool is_number(const std::string& s) { return !s.empty() && s.find_first_not_of("0123456789") == s.npos; }

// Returns a number from 0 (equal) to 1 (nothing in common).
double change(const std::string& a, const std::string& b) {
  if (a == b) return 0;
  if (is_number(a) || is_number(b)) return 1;
  const auto size = static_cast<double>(std::max<size_t>({a.size(), b.size(), 1}));
  return std::clamp(static_cast<double>(edit_distance(a, b)) / size, 0.05, 1.0);
}

double distance(const Parts& a, const Parts& b) {
  std::vector<double> above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = static_cast<double>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<double>(i);
    for (size_t j = 1; j <= b.size(); ++j)
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + change(a[i - 1], b[j - 1])});
    std::swap(above, row);
  }
  return above[b.size()];
}

// A family of names that differ only in their numbers.
std::string family_of(const std::string& name) {
  Parts parts = parts_of(name);
  for (auto& p : parts)
    if (is_number(p)) p = "*";
  return fmt::format("{}", fmt::join(parts, "."));
}

struct Family {
  std::string first;  // its first name
  size_t count = 0;
};

std::map<std::string, Family> families(const std::vector<std::string>& names) {
  std::map<std::string, Family> out;
  for (const auto& n : names) {
    auto& f = out[family_of(n)];
    if (f.count++ == 0) f.first = n;
  }
  return out;
}

std::string joined(const std::vector<std::string>& all, size_t most) {
  const auto shown = std::min(all.size(), most);
  std::string out =
      fmt::format("{}", fmt::join(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < all.size()) out += fmt::format(" and {} more", all.size() - shown);
  return out;
}

// Each family, followed by `hint` of its first name.
template <class Hint>
std::string listed(const std::vector<std::string>& names, size_t most, Hint hint) {
  std::vector<std::string> out;
  for (const auto& [family, f] : families(names)) {
    const std::string near = out.size() < most ? hint(f.first) : "";
    out.push_back(f.count == 1 ? fmt::format("'{}'{}", f.first, near)
                               : fmt::format("'{}' ({} times){}", family, f.count, near));
  }
  return joined(out, most);
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates) {
  const Parts parts = parts_of(name);
  double best = static_cast<double>(parts.size()) / 2 + 1e-9;
  std::string found;
  for (const auto& c : candidates) {
    const Parts other = parts_of(c);
    if (std::max(parts.size(), other.size()) - std::min(parts.size(), other.size()) > parts.size() / 2)
      continue;
    if (const double d = distance(parts, other); d < best) best = d, found = c;
  }
  return found;
}

std::string complaint(const WeightsProblems& p, const std::vector<std::string>& parameters, size_t most) {
  std::vector<std::string> lines;
  if (!p.shapes.empty())
    lines.push_back(fmt::format("{} of other shapes: {}", p.shapes.size(), joined(p.shapes, most)));
  if (!p.integers.empty())
    lines.push_back(fmt::format("{} of integers: {}", p.integers.size(), joined(p.integers, most)));
  std::set<std::string> partners;
  if (!p.missing.empty())
    lines.push_back(
        fmt::format("{} missing: {}", p.missing.size(), listed(p.missing, most, [&](const std::string& name) {
                      const auto near = nearest_name(name, p.unexpected);
                      partners.insert(family_of(near));
                      return near.empty() ? "" : ", did you mean '" + near + "'?";
                    })));
  if (!p.unexpected.empty())
    lines.push_back(fmt::format("{} unexpected: {}", p.unexpected.size(),
                                listed(p.unexpected, most, [&](const std::string& name) {
                                  if (partners.count(family_of(name))) return std::string();
                                  const auto near = nearest_name(name, parameters);
                                  return near.empty() ? "" : fmt::format(" (nearest parameter: '{}')", near);
                                })));
  return fmt::format("{}", fmt::join(lines, "; "));
}

}  // namespace kinora::core
