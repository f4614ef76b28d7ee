// Chooses some of many clips: at random, or those that differ the most; and splits clips into sets.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace kinora::core {

// Places of `count` of the keys, in an order that the seed and each key alone decide: the choice does not depend on the
// order of the keys, and a key that is added or removed changes at most one place of it. All if there are not more.
std::vector<size_t> random_places(const std::vector<std::string>& keys, size_t count, int64_t seed);

// Farthest point first (Gonzalez 1985): places of `count` rows of `vectors` [rows, size], beginning with
// those of `first`, or with row 0 if `first` is empty; each next one has the smallest cosine with the nearest
// chosen row, ties by the smaller place. Exact: count * rows * size products. Scales the rows to length 1; a
// row of zeros has the cosine 0 with all. step: is called after each choice with the number of chosen rows.
std::vector<size_t> farthest_places(std::vector<float>& vectors, size_t size, size_t count,
                                    const std::vector<size_t>& first,
                                    const std::function<void(size_t)>& step);

// The set whose part of [0, 1) holds the share. asked: the length of each part, of a sum of 1.
size_t set_at(const std::vector<double>& asked, double share);

// The shares whose set is another than set_at() says, by share: from three shares on, if there are as many as sets, no
// set stays without one. It takes the share that is nearest to its part, of a set that has more than one.
std::map<double, size_t> moved_shares(const std::vector<double>& asked, const std::set<double>& shares);

}  // namespace kinora::core
