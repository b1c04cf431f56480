//! The modelled SSD in virtual time: geometry, channels, dies, planes, translation, garbage
//! collection and wear.

#![forbid(unsafe_code)]
