// Decides which workers of which stage run on which node: the balancer that every engine shares. Pure functions over
// measured service times; no clock, no threads, no state.
//
//   Estimate seconds(10);                       // one per stage; add() the time of each sample
//   Plan plan = place(stages, nodes);           // without a previous plan
//   Plan next = rebalance(stages, nodes, plan, {});   // later, with other times: `plan` itself unless a change pays
//
// A pipeline runs as fast as its slowest stage: with n_i workers, s_i seconds per sample and r_i samples per
// input of the source, t = min_i n_i / (r_i s_i) inputs per second. place() maximises t over whole workers that
// fit on the nodes.
#pragma once
#include "kinora/balance/columns.hpp"
#include "kinora/balance/estimate.hpp"
#include "kinora/balance/greedy.hpp"
#include "kinora/balance/linear.hpp"
#include "kinora/balance/pack.hpp"
#include "kinora/balance/pattern.hpp"
#include "kinora/balance/place.hpp"
#include "kinora/balance/rebalance.hpp"
#include "kinora/balance/shared.hpp"
#include "kinora/balance/stages.hpp"
