#version 3.7;
global_settings { assumed_gamma 1 radiosity { count 40 error_bound 0.5 recursion_limit 2 } }
#declare Random = seed(1);
camera { location <0, 1, -2.9> look_at <0, 1, 0> }
// A room that only its open ceiling lights, full of small things.
box { <-2, 0, -3>, <2, 2, 3> hollow pigment { rgb 0.8 } finish { diffuse 0.8 ambient 0 } }
box { <-1, 1.99, -1>, <1, 1.995, 1> pigment { rgb 1 } finish { emission 3 } }
#for (I, 1, 4000)
  sphere { <4 * rand(Random) - 2, rand(Random), 6 * rand(Random) - 3>, 0.02 + 0.05 * rand(Random)
           pigment { rgb <rand(Random), rand(Random), rand(Random)> } finish { diffuse 0.7 ambient 0 } }
#end
