// Where to cut a range of names of which only the ends are known.
#pragma once
#include <string>

namespace kinora::core {

// A name between two others, in the order of their bytes; empty high: no end. Empty: none is found. It halves the names
// of printable ASCII letters that lie between; where the ends differ in a letter outside ASCII, the letters of Unicode
// there, or, if these are neighbours, what begins with the lower one. Valid UTF-8 if the names are.
std::string middle_name(const std::string& low, const std::string& high);

}  // namespace kinora::core
